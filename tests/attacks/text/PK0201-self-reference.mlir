pir.program @main {
  %1 = pd_op.relu(%1) : (tensor<2xf32>) -> tensor<2xf32>
}
