// RUN: pirkit-opt %s -p simplify-kernels | filecheck %s

// Equal scalars of a statement are merged; the ops that the kernel replaces stay, for its certificate.
// CHECK-LABEL: pir.program @equal
// CHECK:         map_expr.origin "pd_op.exp"
// CHECK-NEXT:    map_expr.origin "pd_op.exp"
// CHECK:         %[[L:.*]] = map_expr.load %x0[%i0] : f32
// CHECK-NEXT:    %[[E:.*]] = map_expr.apply "pd_op.exp"(%[[L]]) : f32
// CHECK-NEXT:    %[[S:.*]] = map_expr.apply "pd_op.add"(%[[E]], %[[E]]) : f32
// CHECK-NEXT:    map_expr.yield %[[S]]
pir.program @equal(%x "x" : tensor<4xf32>) {
  %y = pir.map_expr @fn(%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%x0: tensor<4xf32>):
    %o0 = map_expr.origin "pd_op.exp"(%x0) : tensor<4xf32>
    %o1 = map_expr.origin "pd_op.exp"(%x0) : tensor<4xf32>
    %o2 = map_expr.origin "pd_op.add"(%o0, %o1) : tensor<4xf32>
    %v0 = map_expr.statement of %o2 phase 0 : tensor<4xf32> {
    ^bb0(%i0: index):
      %0 = map_expr.load %x0[%i0] : f32
      %1 = map_expr.load %x0[%i0] : f32
      %t0 = map_expr.apply "pd_op.exp"(%0) : f32
      %t1 = map_expr.apply "pd_op.exp"(%1) : f32
      %t2 = map_expr.apply "pd_op.add"(%t0, %t1) : f32
      map_expr.yield %t2
    }
    map_expr.output %v0
  }
  pir.shadow_output(%y) {output_name = "y"} : (tensor<4xf32>) -> ()
}

// -----
// A result that nobody uses goes, with its statement and what only that one needs.
// CHECK-LABEL: pir.program @unused
// CHECK:         pir.map_expr @fn(%x) : (tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NOT:     pd_op.sin
// CHECK:         map_expr.output %v0
pir.program @unused(%x "x" : tensor<4xf32>) {
  %y, %z = pir.map_expr @fn(%x) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%x0: tensor<4xf32>):
    %o0 = map_expr.origin "pd_op.exp"(%x0) : tensor<4xf32>
    %o1 = map_expr.origin "pd_op.sin"(%x0) : tensor<4xf32>
    %v0 = map_expr.statement of %o0 phase 0 : tensor<4xf32> {
    ^bb0(%i0: index):
      %0 = map_expr.load %x0[%i0] : f32
      %t0 = map_expr.apply "pd_op.exp"(%0) : f32
      map_expr.yield %t0
    }
    %v1 = map_expr.statement of %o1 phase 0 : tensor<4xf32> {
    ^bb0(%i0: index):
      %0 = map_expr.load %x0[%i0] : f32
      %t0 = map_expr.apply "pd_op.sin"(%0) : f32
      map_expr.yield %t0
    }
    map_expr.output %v0, %v1
  }
  pir.shadow_output(%y) {output_name = "y"} : (tensor<4xf32>) -> ()
}

// -----
// Sizes that the operands have are written in place of symbols: a broadcast index becomes plain.
// CHECK-LABEL: pir.program @sized
// CHECK:         ^bb0(%x0: tensor<3x4xf32>, %x1: tensor<3x4xf32>):
// CHECK-NEXT:      map_expr.origin "pd_op.add"(%x0, %x1) : tensor<3x4xf32>
// CHECK:           map_expr.load %x0[%i0, %i1] : f32
// CHECK-NEXT:      map_expr.load %x1[%i0, %i1] : f32
pir.program @sized(%x "x" : tensor<3x4xf32>, %y "y" : tensor<3x4xf32>) {
  %z = pir.map_expr @fn(%x, %y) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<?x4xf32> {
  ^bb0(%x0: tensor<?x4xf32, affine_map<()[s0] -> (s0, 4)>>, %x1: tensor<?x4xf32, affine_map<()[s0, s1] -> (s1, 4)>>):
    map_expr.size s2 = broadcast [s0, s1]
    %o0 = map_expr.origin "pd_op.add"(%x0, %x1) : tensor<?x4xf32, affine_map<()[s0, s1, s2] -> (s2, 4)>>
    %v0 = map_expr.statement of %o0 phase 0 : tensor<?x4xf32, affine_map<()[s0, s1, s2] -> (s2, 4)>> {
    ^bb0(%i0: index, %i1: index):
      %0 = map_expr.load %x0[%i0 mod s0, %i1] : f32
      %1 = map_expr.load %x1[%i0 mod s1, %i1] : f32
      %t0 = map_expr.apply "pd_op.add"(%0, %1) : f32
      map_expr.yield %t0
    }
    map_expr.output %v0
  }
  pir.shadow_output(%z) {output_name = "z"} : (tensor<?x4xf32>) -> ()
}
