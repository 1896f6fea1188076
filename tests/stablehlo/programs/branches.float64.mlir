module @jit_branches attributes {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x4xf64>, %arg1: tensor<i32>) -> (tensor<3x4xf64> {jax.result_info = "result[0]"}, tensor<3x4xf64> {jax.result_info = "result[1]"}, tensor<i64> {jax.result_info = "result[2]"}, tensor<3x4xf64> {jax.result_info = "result[3]"}) {
    %c = stablehlo.constant dense<1> : tensor<i64>
    %c_0 = stablehlo.constant dense<true> : tensor<i1>
    %cst = stablehlo.constant dense<5.000000e+01> : tensor<f64>
    %c_1 = stablehlo.constant dense<0> : tensor<i64>
    %cst_2 = stablehlo.constant dense<3.000000e+00> : tensor<f64>
    %cst_3 = stablehlo.constant dense<2.000000e+00> : tensor<f64>
    %c_4 = stablehlo.constant dense<2> : tensor<i32>
    %c_5 = stablehlo.constant dense<0> : tensor<i32>
    %cst_6 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %0 = stablehlo.reduce(%arg0 init: %cst_7) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x4xf64>, tensor<f64>) -> tensor<f64>
    %1 = stablehlo.compare GT, %0, %cst_7, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
    %2 = stablehlo.convert %1 : (tensor<i1>) -> tensor<i32>
    %3 = "stablehlo.case"(%2) ({
      %8 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f64>) -> tensor<3x4xf64>
      %9 = stablehlo.subtract %arg0, %8 : tensor<3x4xf64>
      stablehlo.return %9 : tensor<3x4xf64>
    }, {
      %8 = stablehlo.sine %arg0 : tensor<3x4xf64>
      stablehlo.return %8 : tensor<3x4xf64>
    }) : (tensor<i32>) -> tensor<3x4xf64>
    %4 = stablehlo.clamp %c_5, %arg1, %c_4 : tensor<i32>
    %5 = "stablehlo.case"(%4) ({
      stablehlo.return %3 : tensor<3x4xf64>
    }, {
      %8 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f64>) -> tensor<3x4xf64>
      %9 = stablehlo.multiply %3, %8 : tensor<3x4xf64>
      stablehlo.return %9 : tensor<3x4xf64>
    }, {
      %8 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f64>) -> tensor<3x4xf64>
      %9 = stablehlo.add %3, %8 : tensor<3x4xf64>
      stablehlo.return %9 : tensor<3x4xf64>
    }) : (tensor<i32>) -> tensor<3x4xf64>
    %6 = stablehlo.multiply %5, %5 : tensor<3x4xf64>
    %7:2 = stablehlo.while(%iterArg = %c_1, %iterArg_8 = %6) : tensor<i64>, tensor<3x4xf64>
    cond {
      %8 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<3x4xf64>
      %9 = stablehlo.compare LT, %iterArg_8, %8, FLOAT : (tensor<3x4xf64>, tensor<3x4xf64>) -> tensor<3x4xi1>
      %10 = stablehlo.reduce(%9 init: %c_0) applies stablehlo.and across dimensions = [0, 1] : (tensor<3x4xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %10 : tensor<i1>
    } do {
      %8 = stablehlo.add %iterArg, %c : tensor<i64>
      %9 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f64>) -> tensor<3x4xf64>
      %10 = stablehlo.multiply %iterArg_8, %9 : tensor<3x4xf64>
      %11 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f64>) -> tensor<3x4xf64>
      %12 = stablehlo.add %10, %11 : tensor<3x4xf64>
      stablehlo.return %8, %12 : tensor<i64>, tensor<3x4xf64>
    }
    return %3, %5, %7#0, %7#1 : tensor<3x4xf64>, tensor<3x4xf64>, tensor<i64>, tensor<3x4xf64>
  }
}
