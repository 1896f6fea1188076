module @jit_adam attributes {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8x3xf32>, %arg1: tensor<8xf32>, %arg2: tensor<3x6xf32>, %arg3: tensor<6xf32>, %arg4: tensor<3x6xf32>, %arg5: tensor<6xf32>, %arg6: tensor<3x6xf32>, %arg7: tensor<6xf32>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<3x6xf32> {jax.result_info = "result[1][0][0]"}, tensor<3x6xf32> {jax.result_info = "result[1][0][1]"}, tensor<3x6xf32> {jax.result_info = "result[1][0][2]"}, tensor<6xf32> {jax.result_info = "result[1][1][0]"}, tensor<6xf32> {jax.result_info = "result[1][1][1]"}, tensor<6xf32> {jax.result_info = "result[1][1][2]"}) {
    %cst = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %cst_0 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %cst_1 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %cst_2 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %cst_3 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %cst_4 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %cst_5 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_6 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_8 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %0 = stablehlo.dot_general %arg0, %arg2, contracting_dims = [1] x [0] : (tensor<8x3xf32>, tensor<3x6xf32>) -> tensor<8x6xf32>
    %1:3 = call @silu(%0) : (tensor<8x6xf32>) -> (tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>)
    %2 = stablehlo.dot_general %1#0, %arg3, contracting_dims = [1] x [0] : (tensor<8x6xf32>, tensor<6xf32>) -> tensor<8xf32>
    %3 = stablehlo.subtract %2, %arg1 : tensor<8xf32>
    %4 = stablehlo.multiply %3, %3 : tensor<8xf32>
    %5 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %6 = stablehlo.multiply %5, %3 : tensor<8xf32>
    %7 = stablehlo.reduce(%4 init: %cst_7) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    %8 = stablehlo.divide %7, %cst_6 : tensor<f32>
    %9 = stablehlo.divide %cst_5, %cst_6 : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %11 = stablehlo.multiply %10, %6 : tensor<8xf32>
    %12 = stablehlo.dot_general %11, %1#0, contracting_dims = [0] x [0] : (tensor<8xf32>, tensor<8x6xf32>) -> tensor<6xf32>
    %13 = stablehlo.dot_general %11, %arg3, contracting_dims = [] x [] : (tensor<8xf32>, tensor<6xf32>) -> tensor<8x6xf32>
    %14 = call @silu_0(%1#1, %1#2, %0, %13) : (tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %15 = stablehlo.dot_general %14, %arg0, contracting_dims = [0] x [0] : (tensor<8x6xf32>, tensor<8x3xf32>) -> tensor<6x3xf32>
    %16 = stablehlo.transpose %15, dims = [1, 0] : (tensor<6x3xf32>) -> tensor<3x6xf32>
    %17 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<3x6xf32>
    %18 = stablehlo.multiply %17, %arg4 : tensor<3x6xf32>
    %19 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<3x6xf32>
    %20 = stablehlo.multiply %19, %16 : tensor<3x6xf32>
    %21 = stablehlo.add %18, %20 : tensor<3x6xf32>
    %22 = stablehlo.multiply %arg6, %arg6 : tensor<3x6xf32>
    %23 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<3x6xf32>
    %24 = stablehlo.multiply %23, %22 : tensor<3x6xf32>
    %25 = stablehlo.multiply %16, %16 : tensor<3x6xf32>
    %26 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<3x6xf32>
    %27 = stablehlo.multiply %26, %25 : tensor<3x6xf32>
    %28 = stablehlo.add %24, %27 : tensor<3x6xf32>
    %29 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<3x6xf32>
    %30 = stablehlo.divide %21, %29 : tensor<3x6xf32>
    %31 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<3x6xf32>
    %32 = stablehlo.multiply %31, %30 : tensor<3x6xf32>
    %33 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<3x6xf32>
    %34 = stablehlo.divide %28, %33 : tensor<3x6xf32>
    %35 = stablehlo.sqrt %34 : tensor<3x6xf32>
    %36 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x6xf32>
    %37 = stablehlo.add %35, %36 : tensor<3x6xf32>
    %38 = stablehlo.divide %32, %37 : tensor<3x6xf32>
    %39 = stablehlo.subtract %arg2, %38 : tensor<3x6xf32>
    %40 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %41 = stablehlo.multiply %40, %arg5 : tensor<6xf32>
    %42 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %43 = stablehlo.multiply %42, %12 : tensor<6xf32>
    %44 = stablehlo.add %41, %43 : tensor<6xf32>
    %45 = stablehlo.multiply %arg7, %arg7 : tensor<6xf32>
    %46 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %47 = stablehlo.multiply %46, %45 : tensor<6xf32>
    %48 = stablehlo.multiply %12, %12 : tensor<6xf32>
    %49 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %50 = stablehlo.multiply %49, %48 : tensor<6xf32>
    %51 = stablehlo.add %47, %50 : tensor<6xf32>
    %52 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %53 = stablehlo.divide %44, %52 : tensor<6xf32>
    %54 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %55 = stablehlo.multiply %54, %53 : tensor<6xf32>
    %56 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %57 = stablehlo.divide %51, %56 : tensor<6xf32>
    %58 = stablehlo.sqrt %57 : tensor<6xf32>
    %59 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %60 = stablehlo.add %58, %59 : tensor<6xf32>
    %61 = stablehlo.divide %55, %60 : tensor<6xf32>
    %62 = stablehlo.subtract %arg3, %61 : tensor<6xf32>
    return %8, %39, %21, %28, %62, %44, %51 : tensor<f32>, tensor<3x6xf32>, tensor<3x6xf32>, tensor<3x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>
  }
  func.func private @silu(%arg0: tensor<8x6xf32>) -> (tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>) {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %0 = stablehlo.negate %arg0 : tensor<8x6xf32>
    %1 = stablehlo.exponential %0 : tensor<8x6xf32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x6xf32>
    %3 = stablehlo.add %2, %1 : tensor<8x6xf32>
    %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x6xf32>
    %5 = stablehlo.divide %4, %3 : tensor<8x6xf32>
    %6 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x6xf32>
    %7 = stablehlo.subtract %6, %5 : tensor<8x6xf32>
    %8 = stablehlo.multiply %5, %7 : tensor<8x6xf32>
    %9 = stablehlo.multiply %arg0, %5 : tensor<8x6xf32>
    return %9, %8, %5 : tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>
  }
  func.func private @silu_0(%arg0: tensor<8x6xf32>, %arg1: tensor<8x6xf32>, %arg2: tensor<8x6xf32>, %arg3: tensor<8x6xf32>) -> tensor<8x6xf32> {
    %0 = stablehlo.multiply %arg2, %arg3 : tensor<8x6xf32>
    %1 = stablehlo.multiply %arg3, %arg1 : tensor<8x6xf32>
    %2 = stablehlo.multiply %0, %arg0 : tensor<8x6xf32>
    %3 = stablehlo.add %1, %2 : tensor<8x6xf32>
    return %3 : tensor<8x6xf32>
  }
}
