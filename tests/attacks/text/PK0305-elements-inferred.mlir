pir.program @main(%x "x" : tensor<2xf32>) {
  %y = pd_op.tile(%x) {repeat_times = array<i64: 4611686018427387904>} : (tensor<2xf32>) -> tensor<?xf32>
}
