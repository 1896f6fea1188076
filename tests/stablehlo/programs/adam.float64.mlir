module @jit_adam attributes {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8x3xf64>, %arg1: tensor<8xf64>, %arg2: tensor<3x6xf64>, %arg3: tensor<6xf64>, %arg4: tensor<3x6xf64>, %arg5: tensor<6xf64>, %arg6: tensor<3x6xf64>, %arg7: tensor<6xf64>) -> (tensor<f64> {jax.result_info = "result[0]"}, tensor<3x6xf64> {jax.result_info = "result[1][0][0]"}, tensor<3x6xf64> {jax.result_info = "result[1][0][1]"}, tensor<3x6xf64> {jax.result_info = "result[1][0][2]"}, tensor<6xf64> {jax.result_info = "result[1][1][0]"}, tensor<6xf64> {jax.result_info = "result[1][1][1]"}, tensor<6xf64> {jax.result_info = "result[1][1][2]"}) {
    %cst = stablehlo.constant dense<1.000000e-08> : tensor<f64>
    %cst_0 = stablehlo.constant dense<1.000000e-02> : tensor<f64>
    %cst_1 = stablehlo.constant dense<1.000000e-03> : tensor<f64>
    %cst_2 = stablehlo.constant dense<0.99899999999999999> : tensor<f64>
    %cst_3 = stablehlo.constant dense<1.000000e-01> : tensor<f64>
    %cst_4 = stablehlo.constant dense<9.000000e-01> : tensor<f64>
    %cst_5 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %cst_6 = stablehlo.constant dense<8.000000e+00> : tensor<f64>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %cst_8 = stablehlo.constant dense<2.000000e+00> : tensor<f64>
    %0 = stablehlo.dot_general %arg0, %arg2, contracting_dims = [1] x [0] : (tensor<8x3xf64>, tensor<3x6xf64>) -> tensor<8x6xf64>
    %1:3 = call @silu(%0) : (tensor<8x6xf64>) -> (tensor<8x6xf64>, tensor<8x6xf64>, tensor<8x6xf64>)
    %2 = stablehlo.dot_general %1#0, %arg3, contracting_dims = [1] x [0] : (tensor<8x6xf64>, tensor<6xf64>) -> tensor<8xf64>
    %3 = stablehlo.subtract %2, %arg1 : tensor<8xf64>
    %4 = stablehlo.multiply %3, %3 : tensor<8xf64>
    %5 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f64>) -> tensor<8xf64>
    %6 = stablehlo.multiply %5, %3 : tensor<8xf64>
    %7 = stablehlo.reduce(%4 init: %cst_7) applies stablehlo.add across dimensions = [0] : (tensor<8xf64>, tensor<f64>) -> tensor<f64>
    %8 = stablehlo.divide %7, %cst_6 : tensor<f64>
    %9 = stablehlo.divide %cst_5, %cst_6 : tensor<f64>
    %10 = stablehlo.broadcast_in_dim %9, dims = [] : (tensor<f64>) -> tensor<8xf64>
    %11 = stablehlo.multiply %10, %6 : tensor<8xf64>
    %12 = stablehlo.dot_general %11, %1#0, contracting_dims = [0] x [0] : (tensor<8xf64>, tensor<8x6xf64>) -> tensor<6xf64>
    %13 = stablehlo.dot_general %11, %arg3, contracting_dims = [] x [] : (tensor<8xf64>, tensor<6xf64>) -> tensor<8x6xf64>
    %14 = call @silu_0(%1#1, %1#2, %0, %13) : (tensor<8x6xf64>, tensor<8x6xf64>, tensor<8x6xf64>, tensor<8x6xf64>) -> tensor<8x6xf64>
    %15 = stablehlo.dot_general %14, %arg0, contracting_dims = [0] x [0] : (tensor<8x6xf64>, tensor<8x3xf64>) -> tensor<6x3xf64>
    %16 = stablehlo.transpose %15, dims = [1, 0] : (tensor<6x3xf64>) -> tensor<3x6xf64>
    %17 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f64>) -> tensor<3x6xf64>
    %18 = stablehlo.multiply %17, %arg4 : tensor<3x6xf64>
    %19 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f64>) -> tensor<3x6xf64>
    %20 = stablehlo.multiply %19, %16 : tensor<3x6xf64>
    %21 = stablehlo.add %18, %20 : tensor<3x6xf64>
    %22 = stablehlo.multiply %arg6, %arg6 : tensor<3x6xf64>
    %23 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f64>) -> tensor<3x6xf64>
    %24 = stablehlo.multiply %23, %22 : tensor<3x6xf64>
    %25 = stablehlo.multiply %16, %16 : tensor<3x6xf64>
    %26 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f64>) -> tensor<3x6xf64>
    %27 = stablehlo.multiply %26, %25 : tensor<3x6xf64>
    %28 = stablehlo.add %24, %27 : tensor<3x6xf64>
    %29 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f64>) -> tensor<3x6xf64>
    %30 = stablehlo.divide %21, %29 : tensor<3x6xf64>
    %31 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f64>) -> tensor<3x6xf64>
    %32 = stablehlo.multiply %31, %30 : tensor<3x6xf64>
    %33 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f64>) -> tensor<3x6xf64>
    %34 = stablehlo.divide %28, %33 : tensor<3x6xf64>
    %35 = stablehlo.sqrt %34 : tensor<3x6xf64>
    %36 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<3x6xf64>
    %37 = stablehlo.add %35, %36 : tensor<3x6xf64>
    %38 = stablehlo.divide %32, %37 : tensor<3x6xf64>
    %39 = stablehlo.subtract %arg2, %38 : tensor<3x6xf64>
    %40 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f64>) -> tensor<6xf64>
    %41 = stablehlo.multiply %40, %arg5 : tensor<6xf64>
    %42 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f64>) -> tensor<6xf64>
    %43 = stablehlo.multiply %42, %12 : tensor<6xf64>
    %44 = stablehlo.add %41, %43 : tensor<6xf64>
    %45 = stablehlo.multiply %arg7, %arg7 : tensor<6xf64>
    %46 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f64>) -> tensor<6xf64>
    %47 = stablehlo.multiply %46, %45 : tensor<6xf64>
    %48 = stablehlo.multiply %12, %12 : tensor<6xf64>
    %49 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f64>) -> tensor<6xf64>
    %50 = stablehlo.multiply %49, %48 : tensor<6xf64>
    %51 = stablehlo.add %47, %50 : tensor<6xf64>
    %52 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f64>) -> tensor<6xf64>
    %53 = stablehlo.divide %44, %52 : tensor<6xf64>
    %54 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f64>) -> tensor<6xf64>
    %55 = stablehlo.multiply %54, %53 : tensor<6xf64>
    %56 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f64>) -> tensor<6xf64>
    %57 = stablehlo.divide %51, %56 : tensor<6xf64>
    %58 = stablehlo.sqrt %57 : tensor<6xf64>
    %59 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<6xf64>
    %60 = stablehlo.add %58, %59 : tensor<6xf64>
    %61 = stablehlo.divide %55, %60 : tensor<6xf64>
    %62 = stablehlo.subtract %arg3, %61 : tensor<6xf64>
    return %8, %39, %21, %28, %62, %44, %51 : tensor<f64>, tensor<3x6xf64>, tensor<3x6xf64>, tensor<3x6xf64>, tensor<6xf64>, tensor<6xf64>, tensor<6xf64>
  }
  func.func private @silu(%arg0: tensor<8x6xf64>) -> (tensor<8x6xf64>, tensor<8x6xf64>, tensor<8x6xf64>) {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %0 = stablehlo.negate %arg0 : tensor<8x6xf64>
    %1 = stablehlo.exponential %0 : tensor<8x6xf64>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<8x6xf64>
    %3 = stablehlo.add %2, %1 : tensor<8x6xf64>
    %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<8x6xf64>
    %5 = stablehlo.divide %4, %3 : tensor<8x6xf64>
    %6 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<8x6xf64>
    %7 = stablehlo.subtract %6, %5 : tensor<8x6xf64>
    %8 = stablehlo.multiply %5, %7 : tensor<8x6xf64>
    %9 = stablehlo.multiply %arg0, %5 : tensor<8x6xf64>
    return %9, %8, %5 : tensor<8x6xf64>, tensor<8x6xf64>, tensor<8x6xf64>
  }
  func.func private @silu_0(%arg0: tensor<8x6xf64>, %arg1: tensor<8x6xf64>, %arg2: tensor<8x6xf64>, %arg3: tensor<8x6xf64>) -> tensor<8x6xf64> {
    %0 = stablehlo.multiply %arg2, %arg3 : tensor<8x6xf64>
    %1 = stablehlo.multiply %arg3, %arg1 : tensor<8x6xf64>
    %2 = stablehlo.multiply %0, %arg0 : tensor<8x6xf64>
    %3 = stablehlo.add %1, %2 : tensor<8x6xf64>
    return %3 : tensor<8x6xf64>
  }
}
