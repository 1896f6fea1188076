pir.program @main(%x "x" : tensor<2xf32>) {
  %y = pd_op.exp(%z#1) : (tensor<2xf32>) -> tensor<2xf32>
  %z = pd_op.exp(%x) : (tensor<2xf32>) -> tensor<2xf32>
}
