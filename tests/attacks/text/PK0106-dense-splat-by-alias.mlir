!t = tensor<1000000000xf32>
pir.program @main attributes {a = dense<1.0> : !t} {
}
