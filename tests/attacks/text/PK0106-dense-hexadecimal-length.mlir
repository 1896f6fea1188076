pir.program @main attributes {a = dense<"0x0000"> : tensor<2xf32>} {
}
