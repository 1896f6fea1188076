pir.program @main attributes {a = dense<1.0> : tensor<1000000000xf32>} {
}
