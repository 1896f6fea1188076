// RUN: pirkit-opt %s -p canonicalize,dce | filecheck %s

// Neutral elements go; 0.0 is not neutral, since -0.0 + 0.0 is 0.0.
// CHECK-LABEL: pir.program @neutral
// CHECK:         [[Z:%.*]] = pd_op.full() {shape = array<i64: 1>, value = 0.000000e+00 : f64}
// CHECK-NEXT:    pd_op.add(%x, [[Z]])
// CHECK-NEXT:    pir.shadow_output
pir.program @neutral(%x "x" : tensor<2xf32>) {
  %m = pd_op.full() {shape = array<i64: 1>, value = -0.0 : f64} : () -> tensor<1xf32>
  %z = pd_op.full() {shape = array<i64: 1>, value = 0.0 : f64} : () -> tensor<1xf32>
  %a = pd_op.add(%x, %m) : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %b = pd_op.subtract(%a, %z) : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %y = pd_op.add(%b, %z) : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<2xf32>) -> ()
}

// -----
// The branch that is taken takes the place of an `if`; a loop that never starts goes.
// CHECK-LABEL: pir.program @decided
// CHECK-NEXT:    pd_op.sin(%x)
// CHECK-NEXT:    pir.shadow_output
pir.program @decided(%x "x" : tensor<2xf32>) {
  %f = pd_op.full() {shape = array<i64: 1>, value = 0.0 : f64, dtype = #pir.dtype<bool>} : () -> tensor<1xi1>
  %a = pd_op.while(%f, %x) : (tensor<1xi1>, tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%s : tensor<2xf32>):
    %b = pd_op.exp(%s) : (tensor<2xf32>) -> tensor<2xf32>
    pir.yield(%f, %b) : (tensor<1xi1>, tensor<2xf32>) -> ()
  }
  %y = pd_op.if(%f) : (tensor<1xi1>) -> tensor<2xf32> {
    pir.yield(%a) : (tensor<2xf32>) -> ()
  } else {
    %c = pd_op.sin(%a) : (tensor<2xf32>) -> tensor<2xf32>
    pir.yield(%c) : (tensor<2xf32>) -> ()
  }
  pir.shadow_output(%y) {output_name = "y"} : (tensor<2xf32>) -> ()
}

// -----
// A copy of what is written later is a copy.
// CHECK-LABEL: pir.program @copies
// CHECK:         pd_op.assign(%x)
// CHECK-NOT:     pd_op.assign(
// CHECK:         pd_op.relu_(%x)
pir.program @copies(%x "x" : tensor<2xf32>, %z "z" : tensor<2xf32>) {
  %a = pd_op.assign(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %b = pd_op.assign(%z) : (tensor<2xf32>) -> tensor<2xf32>
  %c = pd_op.assign(%b) : (tensor<2xf32>) -> tensor<2xf32>
  %w = pd_op.relu_(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %y = pd_op.add(%a, %c) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<2xf32>) -> ()
}

// -----
// A copy at which gradients stop, and one that gives an input a second name, stay.
// CHECK-LABEL: pir.program @detached
// CHECK:         pd_op.assign
// CHECK:         pd_op.exp
// CHECK:         pd_op.assign
pir.program @detached(%x "x" : tensor<2xf32>) {
  %a = pd_op.assign(%x) {stop_gradient = array<i1: true>} : (tensor<2xf32>) -> tensor<2xf32>
  %y = pd_op.exp(%a) : (tensor<2xf32>) -> tensor<2xf32>
  %b = pd_op.assign(%x) : (tensor<2xf32>) -> tensor<2xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<2xf32>) -> ()
  pir.shadow_output(%b) {output_name = "b"} : (tensor<2xf32>) -> ()
}

// -----
// A softmax stays the left operand of a product that is transposed: rows of attention are fused so.
// CHECK-LABEL: pir.program @attention
// CHECK:         [[P:%.*]] = pd_op.softmax(%s)
// CHECK:         [[O:%.*]] = pd_op.matmul([[P]], %v)
// CHECK:         pd_op.transpose([[O]])
// CHECK:         pd_op.matmul(%v, %s) {transpose_x = true, transpose_y = true}
pir.program @attention(%s "s" : tensor<3x3xf32>, %v "v" : tensor<3x2xf32>) {
  %p = pd_op.softmax(%s) {axis = -1 : i32} : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %o = pd_op.matmul(%p, %v) {transpose_x = false, transpose_y = false} : (tensor<3x3xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %y = pd_op.transpose(%o) {perm = array<i32: 1, 0>} : (tensor<3x2xf32>) -> tensor<2x3xf32>
  %q = pd_op.matmul(%s, %v) {transpose_x = false, transpose_y = false} : (tensor<3x3xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %z = pd_op.transpose(%q) {perm = array<i32: 1, 0>} : (tensor<3x2xf32>) -> tensor<2x3xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<2x3xf32>) -> ()
  pir.shadow_output(%z) {output_name = "z"} : (tensor<2x3xf32>) -> ()
}
