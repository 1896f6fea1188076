module @jit_gru attributes {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<5x2x3xf64>, %arg1: tensor<2x4xf64>, %arg2: tensor<3x12xf64>, %arg3: tensor<4x12xf64>) -> (tensor<2x4xf64> {jax.result_info = "result[0]"}, tensor<5x2x4xf64> {jax.result_info = "result[1]"}) {
    %c = stablehlo.constant dense<1> : tensor<i64>
    %c_0 = stablehlo.constant dense<5> : tensor<i64>
    %c_1 = stablehlo.constant dense<0> : tensor<i64>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<5x2x4xf64>
    %1:6 = stablehlo.while(%iterArg = %arg0, %iterArg_2 = %arg2, %iterArg_3 = %arg3, %iterArg_4 = %c_1, %iterArg_5 = %arg1, %iterArg_6 = %0) : tensor<5x2x3xf64>, tensor<3x12xf64>, tensor<4x12xf64>, tensor<i64>, tensor<2x4xf64>, tensor<5x2x4xf64>
    cond {
      %2 = stablehlo.compare LT, %iterArg_4, %c_0, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    } do {
      %2 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_4) : (tensor<5x2x3xf64>, tensor<i64>) -> tensor<2x3xf64>
      %3:2 = func.call @closed_call(%iterArg_2, %iterArg_3, %iterArg_5, %2) : (tensor<3x12xf64>, tensor<4x12xf64>, tensor<2x4xf64>, tensor<2x3xf64>) -> (tensor<2x4xf64>, tensor<2x4xf64>)
      %4 = func.call @dynamic_update_index_in_dim(%iterArg_6, %3#1, %iterArg_4) : (tensor<5x2x4xf64>, tensor<2x4xf64>, tensor<i64>) -> tensor<5x2x4xf64>
      %5 = stablehlo.add %iterArg_4, %c : tensor<i64>
      stablehlo.return %iterArg, %iterArg_2, %iterArg_3, %5, %3#0, %4 : tensor<5x2x3xf64>, tensor<3x12xf64>, tensor<4x12xf64>, tensor<i64>, tensor<2x4xf64>, tensor<5x2x4xf64>
    }
    return %1#4, %1#5 : tensor<2x4xf64>, tensor<5x2x4xf64>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<5x2x3xf64>, %arg1: tensor<i64>) -> tensor<2x3xf64> {
    %c = stablehlo.constant dense<0> : tensor<i64>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c, sizes = [1, 2, 3] : (tensor<5x2x3xf64>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<1x2x3xf64>
    %1 = stablehlo.reshape %0 : (tensor<1x2x3xf64>) -> tensor<2x3xf64>
    return %1 : tensor<2x3xf64>
  }
  func.func private @closed_call(%arg0: tensor<3x12xf64>, %arg1: tensor<4x12xf64>, %arg2: tensor<2x4xf64>, %arg3: tensor<2x3xf64>) -> (tensor<2x4xf64>, tensor<2x4xf64>) {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %0 = stablehlo.dot_general %arg3, %arg0, contracting_dims = [1] x [0] : (tensor<2x3xf64>, tensor<3x12xf64>) -> tensor<2x12xf64>
    %1 = stablehlo.dot_general %arg2, %arg1, contracting_dims = [1] x [0] : (tensor<2x4xf64>, tensor<4x12xf64>) -> tensor<2x12xf64>
    %2 = stablehlo.slice %0 [0:2, 0:4] : (tensor<2x12xf64>) -> tensor<2x4xf64>
    %3 = stablehlo.slice %1 [0:2, 0:4] : (tensor<2x12xf64>) -> tensor<2x4xf64>
    %4 = stablehlo.add %2, %3 : tensor<2x4xf64>
    %5 = stablehlo.negate %4 : tensor<2x4xf64>
    %6 = stablehlo.exponential %5 : tensor<2x4xf64>
    %7 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<2x4xf64>
    %8 = stablehlo.add %7, %6 : tensor<2x4xf64>
    %9 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<2x4xf64>
    %10 = stablehlo.divide %9, %8 : tensor<2x4xf64>
    %11 = stablehlo.slice %0 [0:2, 4:8] : (tensor<2x12xf64>) -> tensor<2x4xf64>
    %12 = stablehlo.slice %1 [0:2, 4:8] : (tensor<2x12xf64>) -> tensor<2x4xf64>
    %13 = stablehlo.add %11, %12 : tensor<2x4xf64>
    %14 = stablehlo.negate %13 : tensor<2x4xf64>
    %15 = stablehlo.exponential %14 : tensor<2x4xf64>
    %16 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<2x4xf64>
    %17 = stablehlo.add %16, %15 : tensor<2x4xf64>
    %18 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<2x4xf64>
    %19 = stablehlo.divide %18, %17 : tensor<2x4xf64>
    %20 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<2x4xf64>
    %21 = stablehlo.subtract %20, %10 : tensor<2x4xf64>
    %22 = stablehlo.multiply %21, %arg2 : tensor<2x4xf64>
    %23 = stablehlo.slice %0 [0:2, 8:12] : (tensor<2x12xf64>) -> tensor<2x4xf64>
    %24 = stablehlo.slice %1 [0:2, 8:12] : (tensor<2x12xf64>) -> tensor<2x4xf64>
    %25 = stablehlo.multiply %19, %24 : tensor<2x4xf64>
    %26 = stablehlo.add %23, %25 : tensor<2x4xf64>
    %27 = stablehlo.tanh %26 : tensor<2x4xf64>
    %28 = stablehlo.multiply %10, %27 : tensor<2x4xf64>
    %29 = stablehlo.add %22, %28 : tensor<2x4xf64>
    return %29, %29 : tensor<2x4xf64>, tensor<2x4xf64>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<5x2x4xf64>, %arg1: tensor<2x4xf64>, %arg2: tensor<i64>) -> tensor<5x2x4xf64> {
    %c = stablehlo.constant dense<0> : tensor<i64>
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<2x4xf64>) -> tensor<1x2x4xf64>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c : (tensor<5x2x4xf64>, tensor<1x2x4xf64>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<5x2x4xf64>
    return %1 : tensor<5x2x4xf64>
  }
}
