module @jit_cnn attributes {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x3x8x8xf64>, %arg1: tensor<4x3x3x3xf64>, %arg2: tensor<4xf64>, %arg3: tensor<4x1x3x3xf64>, %arg4: tensor<36x5xf64>) -> (tensor<2x5xf64> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
    %cst_0 = stablehlo.constant dense<1.000000e-05> : tensor<f64>
    %c = stablehlo.constant dense<0> : tensor<i64>
    %cst_1 = stablehlo.constant dense<1.280000e+02> : tensor<f64>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x3x8x8xf64>, tensor<4x3x3x3xf64>) -> tensor<2x4x8x8xf64>
    %1 = stablehlo.reduce(%0 init: %cst_2) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<2x4x8x8xf64>, tensor<f64>) -> tensor<4xf64>
    %2 = stablehlo.broadcast_in_dim %1, dims = [1] : (tensor<4xf64>) -> tensor<1x4x1x1xf64>
    %3 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f64>) -> tensor<1x4x1x1xf64>
    %4 = stablehlo.divide %2, %3 : tensor<1x4x1x1xf64>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf64>) -> tensor<2x4x8x8xf64>
    %6 = stablehlo.subtract %0, %5 : tensor<2x4x8x8xf64>
    %7 = call @_var(%0, %c) : (tensor<2x4x8x8xf64>, tensor<i64>) -> tensor<1x4x1x1xf64>
    %8 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f64>) -> tensor<1x4x1x1xf64>
    %9 = stablehlo.add %7, %8 : tensor<1x4x1x1xf64>
    %10 = stablehlo.rsqrt %9 : tensor<1x4x1x1xf64>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf64>) -> tensor<2x4x8x8xf64>
    %12 = stablehlo.multiply %6, %11 : tensor<2x4x8x8xf64>
    %13 = stablehlo.broadcast_in_dim %arg2, dims = [0] : (tensor<4xf64>) -> tensor<4x1x1xf64>
    %14 = stablehlo.broadcast_in_dim %13, dims = [1, 2, 3] : (tensor<4x1x1xf64>) -> tensor<1x4x1x1xf64>
    %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf64>) -> tensor<2x4x8x8xf64>
    %16 = stablehlo.multiply %12, %15 : tensor<2x4x8x8xf64>
    %17 = call @relu(%16) : (tensor<2x4x8x8xf64>) -> tensor<2x4x8x8xf64>
    %18 = stablehlo.convolution(%17, %arg3) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} {batch_group_count = 1 : i64, feature_group_count = 4 : i64} : (tensor<2x4x8x8xf64>, tensor<4x1x3x3xf64>) -> tensor<2x4x6x6xf64>
    %19 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<f64>
    %20 = "stablehlo.reduce_window"(%18, %19) <{window_dimensions = array<i64: 1, 1, 2, 2>, window_strides = array<i64: 1, 1, 2, 2>}> ({
    ^bb0(%arg5: tensor<f64>, %arg6: tensor<f64>):
      %23 = stablehlo.maximum %arg5, %arg6 : tensor<f64>
      stablehlo.return %23 : tensor<f64>
    }) : (tensor<2x4x6x6xf64>, tensor<f64>) -> tensor<2x4x3x3xf64>
    %21 = stablehlo.reshape %20 : (tensor<2x4x3x3xf64>) -> tensor<2x36xf64>
    %22 = stablehlo.dot_general %21, %arg4, contracting_dims = [1] x [0] : (tensor<2x36xf64>, tensor<36x5xf64>) -> tensor<2x5xf64>
    return %22 : tensor<2x5xf64>
  }
  func.func private @_var(%arg0: tensor<2x4x8x8xf64>, %arg1: tensor<i64>) -> tensor<1x4x1x1xf64> {
    %cst = stablehlo.constant dense<0x7FF8000000000000> : tensor<f64>
    %cst_0 = stablehlo.constant dense<1.280000e+02> : tensor<f64>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %0 = stablehlo.reduce(%arg0 init: %cst_1) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<2x4x8x8xf64>, tensor<f64>) -> tensor<4xf64>
    %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<4xf64>) -> tensor<1x4x1x1xf64>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f64>) -> tensor<1x4x1x1xf64>
    %3 = stablehlo.divide %1, %2 : tensor<1x4x1x1xf64>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf64>) -> tensor<2x4x8x8xf64>
    %5 = stablehlo.subtract %arg0, %4 : tensor<2x4x8x8xf64>
    %6 = stablehlo.multiply %5, %5 : tensor<2x4x8x8xf64>
    %7 = stablehlo.convert %arg1 : (tensor<i64>) -> tensor<f64>
    %8 = stablehlo.subtract %cst_0, %7 : tensor<f64>
    %9 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<2x4x8x8xf64>, tensor<f64>) -> tensor<4xf64>
    %10 = stablehlo.broadcast_in_dim %9, dims = [1] : (tensor<4xf64>) -> tensor<1x4x1x1xf64>
    %11 = stablehlo.broadcast_in_dim %8, dims = [] : (tensor<f64>) -> tensor<1x4x1x1xf64>
    %12 = stablehlo.divide %10, %11 : tensor<1x4x1x1xf64>
    %13 = stablehlo.compare GT, %8, %cst_1, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
    %14 = call @_where(%13, %12, %cst) : (tensor<i1>, tensor<1x4x1x1xf64>, tensor<f64>) -> tensor<1x4x1x1xf64>
    return %14 : tensor<1x4x1x1xf64>
  }
  func.func private @_where(%arg0: tensor<i1>, %arg1: tensor<1x4x1x1xf64>, %arg2: tensor<f64>) -> tensor<1x4x1x1xf64> {
    %0 = stablehlo.convert %arg2 : tensor<f64>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f64>) -> tensor<1x4x1x1xf64>
    %2 = stablehlo.select %arg0, %arg1, %1 : tensor<i1>, tensor<1x4x1x1xf64>
    return %2 : tensor<1x4x1x1xf64>
  }
  func.func private @relu(%arg0: tensor<2x4x8x8xf64>) -> tensor<2x4x8x8xf64> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<2x4x8x8xf64>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x4x8x8xf64>
    return %1 : tensor<2x4x8x8xf64>
  }
}
