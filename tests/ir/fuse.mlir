// RUN: pirkit-opt %s -p fuse | filecheck %s

// What reads and what is read become one kernel; its text holds the solved indices.
// CHECK-LABEL: pir.program @chain
// CHECK:         %[[Y:.*]] = pir.map_expr(%x) {kernel = "kernel fn_exp_0_add_1
// CHECK-SAME:    pd_op.exp(x0[i1, i0], {}, float32)
// CHECK-NOT:     pd_op.transpose(
// CHECK:         pir.shadow_output(%[[Y]])
pir.program @chain(%x "x" : tensor<4x5xf32>) {
  %e = pd_op.exp(%x) : (tensor<4x5xf32>) -> tensor<4x5xf32>
  %a = pd_op.add(%e, %x) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  %t = pd_op.transpose(%a) {perm = array<i32: 1, 0>} : (tensor<4x5xf32>) -> tensor<5x4xf32>
  pir.shadow_output(%t) {output_name = "y"} : (tensor<5x4xf32>) -> ()
}

// -----
// A library op stays, and keeps what is before and behind it apart.
// CHECK-LABEL: pir.program @library
// CHECK:         %[[A:.*]] = pir.map_expr(%x)
// CHECK:         %[[M:.*]] = pd_op.matmul(%[[A]], %[[A]])
// CHECK:         pir.map_expr(%[[M]])
pir.program @library(%x "x" : tensor<4x4xf32>) {
  %e = pd_op.exp(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = pd_op.sin(%e) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %m = pd_op.matmul(%s, %s) {transpose_x = false, transpose_y = false} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = pd_op.cos(%m) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = pd_op.tanh(%c) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<4x4xf32>) -> ()
}

// -----
// A program that writes in place stays as it is.
// CHECK-LABEL: pir.program @writes
// CHECK-NOT:     pir.map_expr
pir.program @writes(%x "x" : tensor<4xf32>) {
  %e = pd_op.exp(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %r = pd_op.relu_(%e) : (tensor<4xf32>) -> tensor<4xf32>
  %s = pd_op.sin(%r) : (tensor<4xf32>) -> tensor<4xf32>
  pir.shadow_output(%s) {output_name = "y"} : (tensor<4xf32>) -> ()
}

// -----
// Sizes that are known only when the program runs have names: one kernel serves all.
// CHECK-LABEL: pir.program @open
// CHECK:         pir.map_expr(%x) {kernel = "kernel fn_exp_0_sin_1
// CHECK-SAME:    input float32[s0]
pir.program @open(%x "x" : tensor<?xf32>) {
  %e = pd_op.exp(%x) : (tensor<?xf32>) -> tensor<?xf32>
  %s = pd_op.sin(%e) : (tensor<?xf32>) -> tensor<?xf32>
  pir.shadow_output(%s) {output_name = "y"} : (tensor<?xf32>) -> ()
}
