pir.program @main attributes {a = tensor<-1xf32>} {
}
