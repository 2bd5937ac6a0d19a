// What a public function may take and give, and what rows of another it may take.
// RUN: qcc-opt %s -split-input-file -verify-diagnostics -qcc-layout-weights

// expected-error @below {{model contract: no public function begins a step, by tokens or rows of the caller's}}
module {
  func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %r: tensor<?xi32>) -> (tensor<?x64xf32> {hir.logits}) {
    %s = hir.select_rows %x, %r : tensor<?x64xf32>, tensor<?xi32>
    return %s : tensor<?x64xf32>
  }
}

// -----

// expected-error @below {{model contract: @f takes neither tokens nor rows}}
func.func @f(%rows: !hir.rows) {
  return
}

// -----

// expected-error @below {{model contract: @f takes ids (argument 0) that are neither embedded nor select rows}}
func.func @f(%ids: tensor<?xi32>, %x: tensor<?x64xf32>) -> (tensor<?x64xf32>, tensor<?xi32>) {
  return %x, %ids : tensor<?x64xf32>, tensor<?xi32>
}

// -----

// expected-error @below {{model contract: @f takes 'tensor<4xi32>' (argument 1); a program takes ids, rows of f32 and !hir.rows}}
func.func @f(%x: tensor<?x64xf32>, %ids: tensor<4xi32>) -> tensor<?x64xf32> {
  %y = hir.select_rows %x, %ids : tensor<?x64xf32>, tensor<4xi32>
  return %x : tensor<?x64xf32>
}

// -----

// expected-error @below {{model contract: @f takes rows twice}}
func.func @f(%x: tensor<?x64xf32>, %y: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %z = hir.add %x, %y : tensor<?x64xf32>
  return %z : tensor<?x64xf32>
}

// -----

// expected-error @below {{model contract: @f takes 'tensor<?x4x16xf32>' (argument 0); a program takes ids, rows of f32 and !hir.rows}}
func.func @f(%x: tensor<?x4x16xf32>) -> tensor<?x4x16xf32> {
  return %x : tensor<?x4x16xf32>
}

// -----

// expected-error @below {{model contract: @f returns nothing}}
func.func @f(%x: tensor<?x64xf32>) {
  %y = hir.add %x, %x : tensor<?x64xf32>
  return
}

// -----

// expected-error @below {{model contract: @f returns 'tensor<?x4x16xf32>'; a program gives rows of f32}}
func.func @f(%x: tensor<?x64xf32>) -> tensor<?x4x16xf32> {
  %y = hir.reshape %x : tensor<?x64xf32> -> tensor<?x4x16xf32>
  return %y : tensor<?x4x16xf32>
}

// -----

// expected-error @below {{model contract: @f returns logits twice}}
func.func @f(%x: tensor<?x64xf32>) -> (tensor<?x64xf32> {hir.logits}, tensor<?x64xf32> {hir.logits}) {
  return %x, %x : tensor<?x64xf32>, tensor<?x64xf32>
}

// -----

// expected-error @below {{model contract: @f selects rows and leaves some: rows are left for all}}
func.func @f(%x: tensor<?x64xf32>, %r: tensor<?xi32>) -> tensor<?x64xf32> {
  %s = hir.select_rows %x, %r : tensor<?x64xf32>, tensor<?xi32>
  return %s : tensor<?x64xf32>
}

// -----

func.func @f(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  return %x : tensor<?x64xf32>
}
// expected-error @below {{model contract: @g takes the rows that @h leaves, but no function of that name leaves rows that it did not take}}
func.func @g(%x: tensor<?x64xf32> {hir.left_by = @h}) -> (tensor<?x64xf32> {hir.logits}) {
  return %x : tensor<?x64xf32>
}

// -----

func.func @f(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  return %x : tensor<?x64xf32>
}
// expected-error @below {{model contract: @g takes 'tensor<?x32xf32>', but @f leaves 'tensor<?x64xf32>'}}
func.func @g(%x: tensor<?x32xf32> {hir.left_by = @f}) -> (tensor<?x32xf32> {hir.logits}) {
  return %x : tensor<?x32xf32>
}

// -----

func.func @f(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  return %x : tensor<?x64xf32>
}
// expected-error @below {{model contract: @g takes rows that @f leaves, and leaves some}}
func.func @g(%x: tensor<?x64xf32> {hir.left_by = @f}) -> tensor<?x64xf32> {
  return %x : tensor<?x64xf32>
}

// -----

// expected-error @below {{model contract: @f gives logits and leaves rows that @g takes}}
func.func @f(%x: tensor<?x64xf32>) -> (tensor<?x64xf32>, tensor<?x64xf32> {hir.logits}) {
  return %x, %x : tensor<?x64xf32>, tensor<?x64xf32>
}
func.func @g(%x: tensor<?x64xf32> {hir.left_by = @f}) -> (tensor<?x64xf32> {hir.logits}) {
  return %x : tensor<?x64xf32>
}
