// RUN: pirkit-opt %s -p 'slice-gathers,dce' | filecheck %s

// Indices that reflect have three runs, which a concat puts together.
// CHECK-LABEL: pir.program @reflected
// CHECK-NOT:     pd_op.full_int_array
// CHECK:         [[A:%.*]] = pd_op.slice(%x) {starts = array<i64: 1>, ends = array<i64: 3>, axes = array<i64: 1>}
// CHECK:         [[F:%.*]] = pd_op.flip([[A]]) {axis = array<i32: 1>}
// CHECK:         [[B:%.*]] = pd_op.slice(%x) {starts = array<i64: 0>, ends = array<i64: 4>, axes = array<i64: 1>}
// CHECK:         [[C:%.*]] = pd_op.slice(%x) {starts = array<i64: 2>, ends = array<i64: 3>, axes = array<i64: 1>}
// CHECK:         [[L:%.*]] = pir.combine([[F]], [[B]], [[C]])
// CHECK:         %y = pd_op.concat([[L]]) {axis = 1 : i32} : {{.*}} -> tensor<2x7xf32>
// CHECK-NOT:     pd_op.gather
pir.program @reflected(%x "x" : tensor<2x4xf32>) {
  %i = pd_op.full_int_array() {value = array<i64: 2, 1, 0, 1, 2, 3, 2>, dtype = #pir.dtype<int64>} : () -> tensor<7xi64>
  %y = pd_op.gather(%x, %i) {axis = 1 : i32} : (tensor<2x4xf32>, tensor<7xi64>) -> tensor<2x7xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<2x7xf32>) -> ()
}

// -----
// A repeated element is expanded; negative indices count from the end; other axes may be unknown.
// CHECK-LABEL: pir.program @repeated
// CHECK:         [[A:%.*]] = pd_op.slice(%x) {starts = array<i64: 3>, ends = array<i64: 4>, axes = array<i64: 0>}
// CHECK:         [[E:%.*]] = pd_op.expand([[A]]) {shape = array<i64: 3, -1>} : (tensor<1x?xf32>) -> tensor<3x?xf32>
// CHECK:         pd_op.concat
pir.program @repeated(%x "x" : tensor<4x?xf32>) {
  %i = pd_op.full_int_array() {value = array<i64: -1, -1, 3, 0>, dtype = #pir.dtype<int64>} : () -> tensor<4xi64>
  %y = pd_op.index_select(%x, %i) {axis = 0 : i32} : (tensor<4x?xf32>, tensor<4xi64>) -> tensor<4x?xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<4x?xf32>) -> ()
}

// -----
// One run may have any step.
// CHECK-LABEL: pir.program @strided
// CHECK:         [[S:%.*]] = pd_op.strided_slice(%x) {starts = array<i64: 1>, ends = array<i64: 6>, strides = array<i64: 2>, axes = array<i32: 0>}
// CHECK:         %y = pd_op.flip([[S]])
pir.program @strided(%x "x" : tensor<7xf32>) {
  %i = pd_op.full_int_array() {value = array<i64: 5, 3, 1>, dtype = #pir.dtype<int64>} : () -> tensor<3xi64>
  %y = pd_op.gather(%x, %i) {axis = 0 : i32} : (tensor<7xf32>, tensor<3xi64>) -> tensor<3xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<3xf32>) -> ()
}

// -----
// Many runs, and an index that is no element, stay gathers.
// CHECK-LABEL: pir.program @kept
// CHECK-COUNT-2: pd_op.gather
pir.program @kept(%x "x" : tensor<7xf32>) {
  %i = pd_op.full_int_array() {value = array<i64: 5, 3, 1, 6, 0, 6, 2, 5, 1>, dtype = #pir.dtype<int64>} : () -> tensor<9xi64>
  %y = pd_op.gather(%x, %i) {axis = 0 : i32} : (tensor<7xf32>, tensor<9xi64>) -> tensor<9xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<9xf32>) -> ()
  %j = pd_op.full_int_array() {value = array<i64: 6, 7>, dtype = #pir.dtype<int64>} : () -> tensor<2xi64>
  %z = pd_op.gather(%x, %j) {axis = 0 : i32} : (tensor<7xf32>, tensor<2xi64>) -> tensor<2xf32>
  pir.shadow_output(%z) {output_name = "z"} : (tensor<2xf32>) -> ()
}
