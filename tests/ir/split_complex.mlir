// RUN: pirkit-opt %s -p 'split-complex,dce' | filecheck %s

// Inputs are read by parts once, and the result is put together once. A scaling by an imaginary
// number exchanges the parts.
// CHECK-LABEL: pir.program @arithmetic
// CHECK:         [[A:%.*]] = pd_op.real(%x)
// CHECK-NEXT:    [[B:%.*]] = pd_op.imag(%x)
// CHECK-NEXT:    [[P:%.*]] = pd_op.multiply([[A]], [[A]])
// CHECK-NEXT:    [[Q:%.*]] = pd_op.multiply([[B]], [[B]])
// CHECK-NEXT:    [[R:%.*]] = pd_op.subtract([[P]], [[Q]])
// CHECK:         [[S:%.*]] = pd_op.add(
// CHECK:         [[T:%.*]] = pd_op.scale([[S]]) {scale = -2
// CHECK-NEXT:    [[U:%.*]] = pd_op.scale([[R]]) {scale = 2
// CHECK:         [[E:%.*]] = pd_op.exp([[T]])
// CHECK:         [[C:%.*]] = pd_op.cos([[U]])
// CHECK:         pd_op.complex(
// CHECK-NOT:     pd_op.complex(
pir.program @arithmetic(%x "x" : tensor<4xcomplex<f32>>) {
  %0 = pd_op.multiply(%x, %x) : (tensor<4xcomplex<f32>>, tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  %1 = pd_op.scale(%0) {scale = #pir.complex<"2j">} : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  %2 = pd_op.exp(%1) : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  %3 = pd_op.add(%2, %x) : (tensor<4xcomplex<f32>>, tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  pir.shadow_output(%3) {output_name = "y"} : (tensor<4xcomplex<f32>>) -> ()
}

// -----
// A real operand has no imaginary part, so that there are two products instead of four.
// CHECK-LABEL: pir.program @by_real
// CHECK-COUNT-2: pd_op.matmul
// CHECK-NOT:     pd_op.matmul
// CHECK-NOT:     complex<
pir.program @by_real(%x "x" : tensor<4x3xf64>, %u "u" : tensor<3x2xf64>, %v "v" : tensor<3x2xf64>) {
  %0 = pd_op.cast(%x) {dtype = #pir.dtype<complex128>} : (tensor<4x3xf64>) -> tensor<4x3xcomplex<f64>>
  %1 = pd_op.complex(%u, %v) : (tensor<3x2xf64>, tensor<3x2xf64>) -> tensor<3x2xcomplex<f64>>
  %2 = pd_op.matmul(%0, %1) {transpose_x = false, transpose_y = false} : (tensor<4x3xcomplex<f64>>, tensor<3x2xcomplex<f64>>) -> tensor<4x2xcomplex<f64>>
  %3 = pd_op.abs(%2) : (tensor<4x2xcomplex<f64>>) -> tensor<4x2xf64>
  pir.shadow_output(%3) {output_name = "y"} : (tensor<4x2xf64>) -> ()
}

// -----
// An operation without a rule reads complex numbers, as does a program of few operations.
// CHECK-LABEL: pir.program @stays
// CHECK-NEXT:    pd_op.matmul(%x, %y) {{.*}}complex<f64>
// CHECK-NEXT:    pd_op.fft_c2c
pir.program @stays(%x "x" : tensor<3x3xcomplex<f64>>, %y "y" : tensor<3x3xcomplex<f64>>) {
  %0 = pd_op.matmul(%x, %y) {transpose_x = false, transpose_y = false} : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
  %1 = pd_op.fft_c2c(%0) {axes = array<i64: 1>, normalization = "backward", forward = true} : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
  pir.shadow_output(%1) {output_name = "z"} : (tensor<3x3xcomplex<f64>>) -> ()
}

// -----
// Of an unknown size, a zero part is computed with: the other one may have another shape.
// CHECK-LABEL: pir.program @unknown_size
// CHECK:         [[Z:%.*]] = pd_op.full_like
// CHECK:         pd_op.complex(
pir.program @unknown_size(%x "x" : tensor<?xf64>, %y "y" : tensor<?xf64>) {
  %0 = pd_op.cast(%x) {dtype = #pir.dtype<complex128>} : (tensor<?xf64>) -> tensor<?xcomplex<f64>>
  %1 = pd_op.cast(%y) {dtype = #pir.dtype<complex128>} : (tensor<?xf64>) -> tensor<?xcomplex<f64>>
  %2 = pd_op.scale(%1) {scale = #pir.complex<"2j">} : (tensor<?xcomplex<f64>>) -> tensor<?xcomplex<f64>>
  %3 = pd_op.add(%0, %2) : (tensor<?xcomplex<f64>>, tensor<?xcomplex<f64>>) -> tensor<?xcomplex<f64>>
  pir.shadow_output(%3) {output_name = "y"} : (tensor<?xcomplex<f64>>) -> ()
}
