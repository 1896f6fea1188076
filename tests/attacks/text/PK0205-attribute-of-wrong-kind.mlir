pir.program @main {
  %0 = pd_op.full() {shape = array<i64: 2>, value = "one", dtype = #pir.dtype<float32>} : () -> tensor<2xf32>
}
