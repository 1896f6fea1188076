// RUN: pirkit-opt %s -p 'reassociate,dce' | filecheck %s

// Two sums with one factor and one weight: the factor is multiplied by the weight once. The factor
// is a product of more rows than columns itself, so that both matrices are multiplied first.
// CHECK-LABEL: pir.program @shared
// CHECK:         [[Q:%.*]] = pd_op.matmul(%v, %w) {transpose_x = false, transpose_y = true} : (tensor<4x8xf32>, tensor<6x8xf32>) -> tensor<4x6xf32>
// CHECK-NEXT:    [[G:%.*]] = pd_op.matmul(%a, [[Q]])
// CHECK-NEXT:    [[P:%.*]] = pd_op.multiply(%x, [[G]])
// CHECK-NEXT:    pd_op.sum([[P]])
// CHECK:         pd_op.matmul(%v, {{.*}}) {{.*}} : (tensor<4x8xf32>, tensor<8x1xf32>) -> tensor<4x1xf32>
// CHECK:         [[P:%.*]] = pd_op.multiply(%y, [[G]])
// CHECK-NEXT:    pd_op.sum([[P]])
// CHECK-NOT:     pd_op.matmul
pir.program @shared(%a "a" : tensor<50x4xf32>, %x "x" : tensor<50x6xf32>, %y "y" : tensor<50x6xf32>) {
  %v = pir.parameter() {parameter_name = "v"} : () -> tensor<4x8xf32>
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<6x8xf32>
  %b = pir.parameter() {parameter_name = "b"} : () -> tensor<8xf32>
  %one = pd_op.full() {shape = array<i64: 50>, value = 1.0 : f64, dtype = #pir.dtype<float32>} : () -> tensor<50xf32>
  %f = pd_op.matmul(%a, %v) {transpose_x = false, transpose_y = false} : (tensor<50x4xf32>, tensor<4x8xf32>) -> tensor<50x8xf32>
  %0 = pd_op.matmul(%x, %w) {transpose_x = false, transpose_y = false} : (tensor<50x6xf32>, tensor<6x8xf32>) -> tensor<50x8xf32>
  %1 = pd_op.add(%0, %b) : (tensor<50x8xf32>, tensor<8xf32>) -> tensor<50x8xf32>
  %2 = pd_op.multiply(%f, %1) : (tensor<50x8xf32>, tensor<50x8xf32>) -> tensor<50x8xf32>
  %3 = pd_op.sum(%2) {axis = array<i64: 1>, dtype = #pir.dtype<Undefined>, keepdim = false} : (tensor<50x8xf32>) -> tensor<50xf32>
  %4 = pd_op.matmul(%y, %w) {transpose_x = false, transpose_y = false} : (tensor<50x6xf32>, tensor<6x8xf32>) -> tensor<50x8xf32>
  %5 = pd_op.multiply(%4, %f) : (tensor<50x8xf32>, tensor<50x8xf32>) -> tensor<50x8xf32>
  %6 = pd_op.sum(%5) {axis = array<i64: -1>, dtype = #pir.dtype<Undefined>, keepdim = false} : (tensor<50x8xf32>) -> tensor<50xf32>
  %7 = pd_op.multiply(%3, %6) : (tensor<50xf32>, tensor<50xf32>) -> tensor<50xf32>
  %8 = pir.gradient(%7, %one, %w) {targets = 1 : i32, wrt = 1 : i32} : (tensor<50xf32>, tensor<50xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  pir.shadow_output(%8) {output_name = "y"} : (tensor<6x8xf32>) -> ()
}

// -----
// Without a derivative nothing changes: results stay the same bit by bit.
// CHECK-LABEL: pir.program @without_derivatives
// CHECK:         pd_op.matmul(%x, %w)
// CHECK:         pd_op.matmul(%y, %w)
pir.program @without_derivatives(%f "f" : tensor<50x8xf32>, %x "x" : tensor<50x6xf32>, %y "y" : tensor<50x6xf32>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<6x8xf32>
  %0 = pd_op.matmul(%x, %w) {transpose_x = false, transpose_y = false} : (tensor<50x6xf32>, tensor<6x8xf32>) -> tensor<50x8xf32>
  %1 = pd_op.multiply(%f, %0) : (tensor<50x8xf32>, tensor<50x8xf32>) -> tensor<50x8xf32>
  %2 = pd_op.sum(%1) {axis = array<i64: 1>, dtype = #pir.dtype<Undefined>, keepdim = false} : (tensor<50x8xf32>) -> tensor<50xf32>
  %3 = pd_op.matmul(%y, %w) {transpose_x = false, transpose_y = false} : (tensor<50x6xf32>, tensor<6x8xf32>) -> tensor<50x8xf32>
  %4 = pd_op.multiply(%f, %3) : (tensor<50x8xf32>, tensor<50x8xf32>) -> tensor<50x8xf32>
  %5 = pd_op.sum(%4) {axis = array<i64: 1>, dtype = #pir.dtype<Undefined>, keepdim = false} : (tensor<50x8xf32>) -> tensor<50xf32>
  pir.shadow_output(%2) {output_name = "y"} : (tensor<50xf32>) -> ()
  pir.shadow_output(%5) {output_name = "z"} : (tensor<50xf32>) -> ()
}

// -----
// A product that something else reads stays, and so does a sum alone with its factor.
// CHECK-LABEL: pir.program @read_elsewhere
// CHECK:         pd_op.matmul(%x, %w)
// CHECK:         pd_op.matmul(%y, %w)
pir.program @read_elsewhere(%f "f" : tensor<50x8xf32>, %x "x" : tensor<50x6xf32>, %y "y" : tensor<50x6xf32>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<6x8xf32>
  %one = pd_op.full() {shape = array<i64: 50>, value = 1.0 : f64, dtype = #pir.dtype<float32>} : () -> tensor<50xf32>
  %0 = pd_op.matmul(%x, %w) {transpose_x = false, transpose_y = false} : (tensor<50x6xf32>, tensor<6x8xf32>) -> tensor<50x8xf32>
  %1 = pd_op.multiply(%f, %0) : (tensor<50x8xf32>, tensor<50x8xf32>) -> tensor<50x8xf32>
  %2 = pd_op.sum(%1) {axis = array<i64: 1>, dtype = #pir.dtype<Undefined>, keepdim = false} : (tensor<50x8xf32>) -> tensor<50xf32>
  %3 = pd_op.matmul(%y, %w) {transpose_x = false, transpose_y = false} : (tensor<50x6xf32>, tensor<6x8xf32>) -> tensor<50x8xf32>
  %4 = pd_op.multiply(%f, %3) : (tensor<50x8xf32>, tensor<50x8xf32>) -> tensor<50x8xf32>
  %5 = pd_op.sum(%4) {axis = array<i64: 1>, dtype = #pir.dtype<Undefined>, keepdim = false} : (tensor<50x8xf32>) -> tensor<50xf32>
  %6 = pd_op.multiply(%2, %5) : (tensor<50xf32>, tensor<50xf32>) -> tensor<50xf32>
  %7 = pir.gradient(%6, %one, %w) {targets = 1 : i32, wrt = 1 : i32} : (tensor<50xf32>, tensor<50xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  pir.shadow_output(%7) {output_name = "y"} : (tensor<6x8xf32>) -> ()
  pir.shadow_output(%3) {output_name = "z"} : (tensor<50x8xf32>) -> ()
}
