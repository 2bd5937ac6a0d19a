// What qcc-layout-weights would refuse, for plans that are built without it.
// RUN: qcc-opt %s -verify-diagnostics -qcc-build-plan="decode=1 prefill=16 head=1"

func.func private @block_a(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  return %x : tensor<?x64xf32>
}
func.func @trunk(%x: tensor<?x64xf32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  // expected-error @below {{call of 'block_a' needs an attribute layer = "blk.N"}}
  %y = func.call @block_a(%x) : (tensor<?x64xf32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
