// RUN: pirkit-opt %s -p fuse | filecheck %s

// What reads and what is read become one kernel; its region holds the solved indices.
// CHECK-LABEL: pir.program @chain
// CHECK:         %[[Y:.*]] = pir.map_expr @fn_exp_0_add_1(%x) : (tensor<4x5xf32>) -> tensor<5x4xf32> {
// CHECK-NEXT:    ^bb0(%[[X:.*]]: tensor<4x5xf32>):
// CHECK-NEXT:      %[[E:.*]] = map_expr.origin "pd_op.exp"(%[[X]]) : tensor<4x5xf32>
// CHECK-NEXT:      %[[A:.*]] = map_expr.origin "pd_op.add"(%[[E]], %[[X]]) : tensor<4x5xf32>
// CHECK-NEXT:      %[[T:.*]] = map_expr.origin "pd_op.transpose"(%[[A]]) {perm = [1 : i64, 0 : i64]} : tensor<5x4xf32>
// CHECK-NEXT:      %[[V:.*]] = map_expr.statement of %[[T]] phase 0 : tensor<5x4xf32> {
// CHECK-NEXT:      ^bb0(%[[I:.*]]: index, %[[J:.*]]: index):
// CHECK-NEXT:        %[[L:.*]] = map_expr.load %[[X]][%[[J]], %[[I]]] : f32
// CHECK-NEXT:        %[[T0:.*]] = map_expr.apply "pd_op.exp"(%[[L]]) : f32
// CHECK-NEXT:        %[[T1:.*]] = map_expr.apply "pd_op.add"(%[[T0]], %[[L]]) : f32
// CHECK-NEXT:        map_expr.yield %[[T1]]
// CHECK-NEXT:      }
// CHECK-NEXT:      map_expr.output %[[V]]
// CHECK-NEXT:    }
// CHECK-NEXT:    pir.shadow_output(%[[Y]])
pir.program @chain(%x "x" : tensor<4x5xf32>) {
  %e = pd_op.exp(%x) : (tensor<4x5xf32>) -> tensor<4x5xf32>
  %a = pd_op.add(%e, %x) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  %t = pd_op.transpose(%a) {perm = array<i32: 1, 0>} : (tensor<4x5xf32>) -> tensor<5x4xf32>
  pir.shadow_output(%t) {output_name = "y"} : (tensor<5x4xf32>) -> ()
}

// -----
// A library op stays, and keeps what is before and behind it apart.
// CHECK-LABEL: pir.program @library
// CHECK:         %[[A:.*]] = pir.map_expr @fn_exp_0_sin_1(%x)
// CHECK:         %[[M:.*]] = pd_op.matmul(%[[A]], %[[A]])
// CHECK:         pir.map_expr @fn_cos_0_tanh_1(%[[M]])
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
// CHECK:         pir.map_expr @fn_exp_0_sin_1(%x) : (tensor<?xf32>) -> tensor<?xf32> {
// CHECK-NEXT:    ^bb0(%[[X:.*]]: tensor<?xf32, affine_map<()[s0] -> (s0)>>):
pir.program @open(%x "x" : tensor<?xf32>) {
  %e = pd_op.exp(%x) : (tensor<?xf32>) -> tensor<?xf32>
  %s = pd_op.sin(%e) : (tensor<?xf32>) -> tensor<?xf32>
  pir.shadow_output(%s) {output_name = "y"} : (tensor<?xf32>) -> ()
}

// -----
// A result without elements is no part of a kernel, which would have no native form.
// CHECK-LABEL: pir.program @no_elements
// CHECK:         pir.map_expr @fn_exp_0
// CHECK:         pd_op.gather
pir.program @no_elements(%x "x" : tensor<3x4xf64>, %i "i" : tensor<0xi64>) {
  %e = pd_op.exp(%x) : (tensor<3x4xf64>) -> tensor<3x4xf64>
  %g = pd_op.gather(%e, %i) {axis = 0 : i32} : (tensor<3x4xf64>, tensor<0xi64>) -> tensor<0x4xf64>
  %t = pd_op.tanh(%e) : (tensor<3x4xf64>) -> tensor<3x4xf64>
  pir.shadow_output(%g) {output_name = "none"} : (tensor<0x4xf64>) -> ()
  pir.shadow_output(%t) {output_name = "some"} : (tensor<3x4xf64>) -> ()
}
