// What cannot be cut is said where it lies.
// RUN: qcc-opt %s -split-input-file -verify-diagnostics -qcc-cut-layers='first=1 last=1'

func.func private @block_a(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %y = hir.add %x, %x : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @trunk(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %a = call @block_a(%x) {layer = "blk.0"} : (tensor<?x64xf32>) -> tensor<?x64xf32>
  // expected-error @below {{cannot cut between layers that do not follow each other: expected 'blk.1', found 'blk.2'}}
  %b = call @block_a(%a) {layer = "blk.2"} : (tensor<?x64xf32>) -> tensor<?x64xf32>
  return %b : tensor<?x64xf32>
}

// -----

func.func private @block_b(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %y = hir.add %x, %x : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @trunk(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %a = call @block_b(%x) {layer = "blk.0"} : (tensor<?x64xf32>) -> tensor<?x64xf32>
  %s = hir.add %a, %x : tensor<?x64xf32>
  // expected-error @below {{cannot cut before 'blk.1': it does not take the residual stream of the layer before it first}}
  %b = call @block_b(%s) {layer = "blk.1"} : (tensor<?x64xf32>) -> tensor<?x64xf32>
  return %b : tensor<?x64xf32>
}

// -----

func.func private @block_c(%x: tensor<?x64xf32>, %also: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %y = hir.add %x, %also : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @trunk(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %a = call @block_c(%x, %x) {layer = "blk.0"} : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  // expected-error @below {{cannot cut before 'blk.1': what begins the step is needed behind it, too}}
  %b = call @block_c(%a, %x) {layer = "blk.1"} : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  return %b : tensor<?x64xf32>
}

// -----

func.func private @block_d(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %y = hir.add %x, %x : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @trunk(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %a = call @block_d(%x) {layer = "blk.0"} : (tensor<?x64xf32>) -> tensor<?x64xf32>
  return %a : tensor<?x64xf32>
}
// expected-error @below {{cannot cut the layers of a model whose steps begin in several functions: @trunk and @draft}}
func.func @draft(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %a = call @block_d(%x) {layer = "blk.1"} : (tensor<?x64xf32>) -> tensor<?x64xf32>
  return %a : tensor<?x64xf32>
}
