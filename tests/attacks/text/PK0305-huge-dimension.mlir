pir.program @main attributes {a = tensor<100000000000000000000000xf32>} {
}
