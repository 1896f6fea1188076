module @jit_pooling attributes {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x6x6x3xf64>, %arg1: tensor<3x3x3x4xf64>, %arg2: tensor<3x3x4x3xf64>) -> (tensor<f64> {jax.result_info = "result[0]"}, tensor<2x6x6x3xf64> {jax.result_info = "result[1][0]"}, tensor<3x3x3x4xf64> {jax.result_info = "result[1][1]"}) {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %cst_0 = stablehlo.constant dense<3.000000e+00> : tensor<f64>
    %cst_1 = stablehlo.constant dense<2.000000e+00> : tensor<f64>
    %cst_2 = stablehlo.constant dense<4.000000e+00> : tensor<f64>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %cst_4 = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
    %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[0, 1], [0, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x6x6x3xf64>, tensor<3x3x3x4xf64>) -> tensor<2x3x3x4xf64>
    %1 = stablehlo.convolution(%0, %arg2) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[2, 1], [2, 1]], lhs_dilate = [2, 2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x3x3x4xf64>, tensor<3x3x4x3xf64>) -> tensor<2x6x6x3xf64>
    %2 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f64>) -> tensor<f64>
    %3 = "stablehlo.reduce_window"(%1, %2) <{padding = dense<[[0, 0], [0, 1], [0, 1], [0, 0]]> : tensor<4x2xi64>, window_dimensions = array<i64: 1, 3, 3, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%arg3: tensor<f64>, %arg4: tensor<f64>):
      %37 = stablehlo.maximum %arg3, %arg4 : tensor<f64>
      stablehlo.return %37 : tensor<f64>
    }) : (tensor<2x6x6x3xf64>, tensor<f64>) -> tensor<2x3x3x3xf64>
    %4 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f64>) -> tensor<f64>
    %5 = "stablehlo.reduce_window"(%1, %4) <{window_dimensions = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%arg3: tensor<f64>, %arg4: tensor<f64>):
      %37 = stablehlo.add %arg3, %arg4 : tensor<f64>
      stablehlo.return %37 : tensor<f64>
    }) : (tensor<2x6x6x3xf64>, tensor<f64>) -> tensor<2x5x5x3xf64>
    %6 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f64>) -> tensor<2x5x5x3xf64>
    %7 = stablehlo.divide %5, %6 : tensor<2x5x5x3xf64>
    %8 = stablehlo.multiply %3, %3 : tensor<2x3x3x3xf64>
    %9 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f64>) -> tensor<2x3x3x3xf64>
    %10 = stablehlo.multiply %9, %3 : tensor<2x3x3x3xf64>
    %11 = stablehlo.reduce(%8 init: %cst_3) applies stablehlo.add across dimensions = [0, 1, 2, 3] : (tensor<2x3x3x3xf64>, tensor<f64>) -> tensor<f64>
    %12 = stablehlo.multiply %7, %7 : tensor<2x5x5x3xf64>
    %13 = stablehlo.multiply %12, %7 : tensor<2x5x5x3xf64>
    %14 = stablehlo.multiply %7, %7 : tensor<2x5x5x3xf64>
    %15 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f64>) -> tensor<2x5x5x3xf64>
    %16 = stablehlo.multiply %15, %14 : tensor<2x5x5x3xf64>
    %17 = stablehlo.reduce(%13 init: %cst_3) applies stablehlo.add across dimensions = [0, 1, 2, 3] : (tensor<2x5x5x3xf64>, tensor<f64>) -> tensor<f64>
    %18 = stablehlo.add %11, %17 : tensor<f64>
    %19 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<2x5x5x3xf64>
    %20 = stablehlo.multiply %19, %16 : tensor<2x5x5x3xf64>
    %21 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<2x3x3x3xf64>
    %22 = stablehlo.multiply %21, %10 : tensor<2x3x3x3xf64>
    %23 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f64>) -> tensor<2x5x5x3xf64>
    %24 = stablehlo.divide %20, %23 : tensor<2x5x5x3xf64>
    %25 = stablehlo.pad %24, %cst_3, low = [0, 1, 1, 0], high = [0, 1, 1, 0], interior = [0, 0, 0, 0] : (tensor<2x5x5x3xf64>, tensor<f64>) -> tensor<2x7x7x3xf64>
    %26 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f64>) -> tensor<f64>
    %27 = "stablehlo.reduce_window"(%25, %26) <{window_dimensions = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%arg3: tensor<f64>, %arg4: tensor<f64>):
      %37 = stablehlo.add %arg3, %arg4 : tensor<f64>
      stablehlo.return %37 : tensor<f64>
    }) : (tensor<2x7x7x3xf64>, tensor<f64>) -> tensor<2x6x6x3xf64>
    %28 = stablehlo.pad %1, %cst_4, low = [0, 0, 0, 0], high = [0, 1, 1, 0], interior = [0, 0, 0, 0] : (tensor<2x6x6x3xf64>, tensor<f64>) -> tensor<2x7x7x3xf64>
    %29 = "stablehlo.select_and_scatter"(%28, %22, %cst_3) <{window_dimensions = array<i64: 1, 3, 3, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%arg3: tensor<f64>, %arg4: tensor<f64>):
      %37 = stablehlo.compare GE, %arg3, %arg4, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
      stablehlo.return %37 : tensor<i1>
    }, {
    ^bb0(%arg3: tensor<f64>, %arg4: tensor<f64>):
      %37 = stablehlo.add %arg3, %arg4 : tensor<f64>
      stablehlo.return %37 : tensor<f64>
    }) : (tensor<2x7x7x3xf64>, tensor<2x3x3x3xf64>, tensor<f64>) -> tensor<2x7x7x3xf64>
    %30 = stablehlo.slice %29 [0:2, 0:6, 0:6, 0:3] : (tensor<2x7x7x3xf64>) -> tensor<2x6x6x3xf64>
    %31 = stablehlo.add %27, %30 : tensor<2x6x6x3xf64>
    %32 = stablehlo.reverse %arg2, dims = [0, 1] : tensor<3x3x4x3xf64>
    %33 = stablehlo.convolution(%31, %32) dim_numbers = [b, 0, 1, f]x[0, 1, o, i]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[0, 1], [0, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x6x6x3xf64>, tensor<3x3x4x3xf64>) -> tensor<2x3x3x4xf64>
    %34 = stablehlo.convolution(%arg0, %33) dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f], window = {pad = [[0, 1], [0, 1]], rhs_dilate = [2, 2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x6x6x3xf64>, tensor<2x3x3x4xf64>) -> tensor<3x3x3x4xf64>
    %35 = stablehlo.reverse %arg1, dims = [0, 1] : tensor<3x3x3x4xf64>
    %36 = stablehlo.convolution(%33, %35) dim_numbers = [b, 0, 1, f]x[0, 1, o, i]->[b, 0, 1, f], window = {pad = [[2, 1], [2, 1]], lhs_dilate = [2, 2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x3x3x4xf64>, tensor<3x3x3x4xf64>) -> tensor<2x6x6x3xf64>
    return %18, %36, %34 : tensor<f64>, tensor<2x6x6x3xf64>, tensor<3x3x3x4xf64>
  }
}
