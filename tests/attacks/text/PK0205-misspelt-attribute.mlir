pir.program @main(%x "x" : tensor<2x2xf32>) {
  %y = pd_op.matmul(%x, %x) {transpose_Y = true} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
}
