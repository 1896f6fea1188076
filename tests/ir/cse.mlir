// RUN: pirkit-opt %s -p cse | filecheck %s

// Equal operations are merged; users of the second use the first.
// CHECK-LABEL: pir.program @equal
// CHECK:         [[A:%.*]] = pd_op.exp
// CHECK-NOT:     pd_op.exp
// CHECK:         pd_op.add([[A]], [[A]])
pir.program @equal(%x "x" : tensor<2xf32>) {
  %a = pd_op.exp(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %b = pd_op.exp(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %y = pd_op.add(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<2xf32>) -> ()
}

// -----
// Attributes that say where an operation comes from do not matter, others do.
// CHECK-LABEL: pir.program @attributes
// CHECK-COUNT-2: pd_op.softmax
// CHECK-NOT:     pd_op.softmax
// CHECK:         pir.shadow_output
pir.program @attributes(%x "x" : tensor<2xf32>) {
  %a = pd_op.softmax(%x) {axis = 0 : i32, struct_name = "/a"} : (tensor<2xf32>) -> tensor<2xf32>
  %b = pd_op.softmax(%x) {axis = 0 : i32, struct_name = "/b"} : (tensor<2xf32>) -> tensor<2xf32>
  %c = pd_op.softmax(%x) {axis = -1 : i32} : (tensor<2xf32>) -> tensor<2xf32>
  %ab = pd_op.add(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %y = pd_op.add(%ab, %c) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<2xf32>) -> ()
}

// -----
// An operation in a block around is known; one in a sibling block is not.
// CHECK-LABEL: pir.program @blocks
// CHECK:         pd_op.exp
// CHECK:         pd_op.if
// CHECK-NOT:     pd_op.exp
// CHECK:         pd_op.sin
// CHECK:       } else {
// CHECK-NOT:     pd_op.exp
// CHECK:         pd_op.sin
pir.program @blocks(%c "c" : tensor<i1>, %x "x" : tensor<2xf32>) {
  %a = pd_op.exp(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %y = pd_op.if(%c) : (tensor<i1>) -> tensor<2xf32> {
    %b = pd_op.exp(%x) : (tensor<2xf32>) -> tensor<2xf32>
    %d = pd_op.sin(%b) : (tensor<2xf32>) -> tensor<2xf32>
    pir.yield(%d) : (tensor<2xf32>) -> ()
  } else {
    %d = pd_op.sin(%a) : (tensor<2xf32>) -> tensor<2xf32>
    pir.yield(%d) : (tensor<2xf32>) -> ()
  }
  pir.shadow_output(%y) {output_name = "y"} : (tensor<2xf32>) -> ()
}

// -----
// A write between two reads separates them, also through an alias.
// CHECK-LABEL: pir.program @written_between
// CHECK-COUNT-2: pd_op.exp
pir.program @written_between(%x "x" : tensor<1xf32>) {
  %v = pd_op.share_data(%x) : (tensor<1xf32>) -> tensor<1xf32>
  %a = pd_op.exp(%x) : (tensor<1xf32>) -> tensor<1xf32>
  %w = pd_op.increment_(%v) {value = 1.0 : f32} : (tensor<1xf32>) -> tensor<1xf32>
  %b = pd_op.exp(%x) : (tensor<1xf32>) -> tensor<1xf32>
  %y = pd_op.add(%a, %b) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<1xf32>) -> ()
}

// -----
// Reads before the write may be merged.
// CHECK-LABEL: pir.program @written_after
// CHECK-COUNT-1: pd_op.exp
// CHECK-NOT:     pd_op.exp
// CHECK:         pd_op.increment_
pir.program @written_after(%x "x" : tensor<1xf32>) {
  %a = pd_op.exp(%x) : (tensor<1xf32>) -> tensor<1xf32>
  %b = pd_op.exp(%x) : (tensor<1xf32>) -> tensor<1xf32>
  %w = pd_op.increment_(%x) {value = 1.0 : f32} : (tensor<1xf32>) -> tensor<1xf32>
  %y = pd_op.add(%a, %b) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<1xf32>) -> ()
}

// -----
// Two increments count twice.
// CHECK-LABEL: pir.program @increments
// CHECK-COUNT-2: pd_op.increment_
pir.program @increments(%x "x" : tensor<1xf32>) {
  %a = pd_op.increment_(%x) {value = 1.0 : f32} : (tensor<1xf32>) -> tensor<1xf32>
  %b = pd_op.increment_(%x) {value = 1.0 : f32} : (tensor<1xf32>) -> tensor<1xf32>
  pir.shadow_output(%b) {output_name = "y"} : (tensor<1xf32>) -> ()
}

// -----
// Buffers that are written need storage of their own, however equal they start.
// CHECK-LABEL: pir.program @buffers
// CHECK-COUNT-2: pd_op.full
pir.program @buffers {
  %a = pd_op.full() {shape = array<i64: 1>, value = 0.0 : f64} : () -> tensor<1xf32>
  %b = pd_op.full() {shape = array<i64: 1>, value = 0.0 : f64} : () -> tensor<1xf32>
  %c = pd_op.increment_(%a) {value = 1.0 : f32} : (tensor<1xf32>) -> tensor<1xf32>
  %y = pd_op.add(%b, %c) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<1xf32>) -> ()
}

// -----
// A loop writes behind the read, which the next turn sees.
// CHECK-LABEL: pir.program @loop
// CHECK-COUNT-2: pd_op.exp
pir.program @loop(%c "c" : tensor<i1>, %x "x" : tensor<1xf32>) {
  %a = pd_op.exp(%x) : (tensor<1xf32>) -> tensor<1xf32>
  %y = pd_op.while(%c, %a) : (tensor<i1>, tensor<1xf32>) -> tensor<1xf32> {
  ^bb0(%s : tensor<1xf32>):
    %b = pd_op.exp(%x) : (tensor<1xf32>) -> tensor<1xf32>
    %w = pd_op.increment_(%x) {value = 1.0 : f32} : (tensor<1xf32>) -> tensor<1xf32>
    pir.yield(%c, %b) : (tensor<i1>, tensor<1xf32>) -> ()
  }
  pir.shadow_output(%y) {output_name = "y"} : (tensor<1xf32>) -> ()
}

// -----
// Zeros of either sign differ, random draws differ, and so do the storages of two names.
// CHECK-LABEL: pir.program @different
// CHECK-COUNT-3: pd_op.full
// CHECK-COUNT-2: pd_op.bernoulli
pir.program @different {
  %a = pd_op.full() {shape = array<i64: 1>, value = 0.0 : f64} : () -> tensor<1xf32>
  %b = pd_op.full() {shape = array<i64: 1>, value = -0.0 : f64} : () -> tensor<1xf32>
  %c = pd_op.full() {shape = array<i64: 1>, value = 0.0 : f64} : () -> tensor<1xf32>
  %p = pd_op.bernoulli(%a) : (tensor<1xf32>) -> tensor<1xf32>
  %q = pd_op.bernoulli(%a) : (tensor<1xf32>) -> tensor<1xf32>
  pir.set_parameter(%a) {parameter_name = "a"} : (tensor<1xf32>) -> ()
  pir.set_parameter(%b) {parameter_name = "b"} : (tensor<1xf32>) -> ()
  pir.set_parameter(%c) {parameter_name = "c"} : (tensor<1xf32>) -> ()
}
