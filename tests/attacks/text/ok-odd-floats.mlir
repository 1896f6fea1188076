pir.program @main {
  %0 = pd_op.full() {shape = array<i64: 2>, value = -0.0 : f64, dtype = #pir.dtype<float32>} : () -> tensor<2xf32>
  %1 = pd_op.full() {shape = array<i64: 2>, value = 0x7FF0000000000000 : f64, dtype = #pir.dtype<float32>} : () -> tensor<2xf32>
  %2 = pd_op.full() {shape = array<i64: 2>, value = 0xFFF0000000000000 : f64, dtype = #pir.dtype<float32>} : () -> tensor<2xf32>
  %3 = pd_op.full() {shape = array<i64: 2>, value = 0x7FF8000000000000 : f64, dtype = #pir.dtype<float32>} : () -> tensor<2xf32>
  %4 = pd_op.full() {shape = array<i64: 2>, value = 0x7FF4000000000001 : f64, dtype = #pir.dtype<float32>} : () -> tensor<2xf32>
}
