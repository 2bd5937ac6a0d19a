// RUN: qcc-opt %s --qcc-verify-model-contract --split-input-file --verify-diagnostics

module attributes {hir.arch = "qwen35", hir.vocab_size = 64 : i64, hir.context_length = 128 : i64, hir.embedding_length = 32 : i64} {
  func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x32xf32> {
    %t = hir.param "token_embd.weight" : !hir.weight<64x32, f32>
    %x = hir.embed %t, %ids : !hir.weight<64x32, f32>, tensor<?xi32>
    return %x : tensor<?x32xf32>
  }
  func.func @head(%x: tensor<?x32xf32> {hir.left_by = @trunk}, %out: tensor<?xi32>) -> (tensor<?x64xf32> {hir.logits}) {
    %t = hir.param "token_embd.weight" : !hir.weight<64x32, f32>
    %s = hir.select_rows %x, %out : tensor<?x32xf32>, tensor<?xi32>
    %y = hir.linear %s, %t : tensor<?x32xf32>, !hir.weight<64x32, f32>
    return %y : tensor<?x64xf32>
  }
}

// -----

// expected-error @below {{model contract: module attribute 'hir.arch' (string) is missing}}
module {}

// -----

// expected-error @below {{model contract: module attribute 'hir.vocab_size' must be a positive integer}}
module attributes {hir.arch = "qwen35"} {}

// -----

// expected-error @below {{model contract: no public function begins a step, by tokens or rows of the caller's}}
module attributes {hir.arch = "qwen35", hir.vocab_size = 64 : i64, hir.context_length = 128 : i64, hir.embedding_length = 32 : i64} {}

// -----

module attributes {hir.arch = "qwen35", hir.vocab_size = 64 : i64, hir.context_length = 128 : i64, hir.embedding_length = 32 : i64} {
  func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x32xf32> {
    %t = hir.param "token_embd.weight" : !hir.weight<64x32, f32>
    %x = hir.embed %t, %ids : !hir.weight<64x32, f32>, tensor<?xi32>
    return %x : tensor<?x32xf32>
  }
  // expected-error @below {{model contract: @head gives logits of 32 values, expected 64 (hir.vocab_size)}}
  func.func @head(%x: tensor<?x32xf32>) -> (tensor<?x32xf32> {hir.logits}) {
    return %x : tensor<?x32xf32>
  }
}

// -----

module attributes {hir.arch = "qwen35", hir.vocab_size = 64 : i64, hir.context_length = 128 : i64, hir.embedding_length = 16 : i64} {
  // expected-error @below {{model contract: @f leaves rows of 32 values, expected 16 (hir.embedding_length)}}
  func.func @f(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x32xf32> {
    %t = hir.param "token_embd.weight" : !hir.weight<64x32, f32>
    %x = hir.embed %t, %ids : !hir.weight<64x32, f32>, tensor<?xi32>
    return %x : tensor<?x32xf32>
  }
}

// -----

// What needs the caller's rows makes no logits of tokens.
// expected-error @below {{model contract: no public functions make logits of tokens}}
module attributes {hir.arch = "qwen35", hir.vocab_size = 64 : i64, hir.context_length = 128 : i64, hir.embedding_length = 32 : i64} {
  func.func @f(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x32xf32> {
    %t = hir.param "token_embd.weight" : !hir.weight<64x32, f32>
    %x = hir.embed %t, %ids : !hir.weight<64x32, f32>, tensor<?xi32>
    return %x : tensor<?x32xf32>
  }
  func.func @g(%x: tensor<?x32xf32>) -> (tensor<?x64xf32> {hir.logits}) {
    %t = hir.param "token_embd.weight" : !hir.weight<64x32, f32>
    %y = hir.linear %x, %t : tensor<?x32xf32>, !hir.weight<64x32, f32>
    return %y : tensor<?x64xf32>
  }
}

// -----

module attributes {hir.arch = "qwen35", hir.vocab_size = 64 : i64, hir.context_length = 128 : i64, hir.embedding_length = 32 : i64} {
  func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x32xf32> {
    %t = hir.param "token_embd.weight" : !hir.weight<64x32, f32>
    %x = hir.embed %t, %ids : !hir.weight<64x32, f32>, tensor<?xi32>
    %a = hir.state "blk.0.conv" : !hir.state<conv, 3x32, f32>
    // expected-error @below {{model contract: state 'blk.0.conv' appears twice}}
    %b = hir.state "blk.0.conv" : !hir.state<conv, 3x32, f32>
    return %x : tensor<?x32xf32>
  }
  func.func @head(%x: tensor<?x32xf32> {hir.left_by = @trunk}, %out: tensor<?xi32>) -> (tensor<?x64xf32> {hir.logits}) {
    %t = hir.param "token_embd.weight" : !hir.weight<64x32, f32>
    %s = hir.select_rows %x, %out : tensor<?x32xf32>, tensor<?xi32>
    %y = hir.linear %s, %t : tensor<?x32xf32>, !hir.weight<64x32, f32>
    return %y : tensor<?x64xf32>
  }
}
