pir.program @main attributes {a = 1.0e99 : f32} {
}
