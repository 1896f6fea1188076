module @jit_decode attributes {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x1x8xf32>, %arg1: tensor<2x2x6x4xf32>, %arg2: tensor<2x2x6x4xf32>, %arg3: tensor<i32>, %arg4: tensor<8x24xf32>, %arg5: tensor<8x16xf32>) -> (tensor<2xi64> {jax.result_info = "result[0]"}, tensor<2x16xf32> {jax.result_info = "result[1]"}, tensor<2x2x6x4xf32> {jax.result_info = "result[2]"}, tensor<2x2x6x4xf32> {jax.result_info = "result[3]"}) {
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %cst_0 = stablehlo.constant dense<-3.40282347E+38> : tensor<f32>
    %cst_1 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %c = stablehlo.constant dense<4> : tensor<i32>
    %c_2 = stablehlo.constant dense<6> : tensor<i32>
    %c_3 = stablehlo.constant dense<2> : tensor<i32>
    %c_4 = stablehlo.constant dense<0> : tensor<i32>
    %cst_5 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %c_6 = stablehlo.constant dense<0> : tensor<i64>
    %cst_7 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst_8) applies stablehlo.add across dimensions = [2] : (tensor<2x1x8xf32>, tensor<f32>) -> tensor<2x1xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<2x1xf32>) -> tensor<2x1x1xf32>
    %2 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<2x1x1xf32>
    %3 = stablehlo.divide %1, %2 : tensor<2x1x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x1x1xf32>) -> tensor<2x1x8xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<2x1x8xf32>
    %6 = call @_var(%arg0, %c_6) : (tensor<2x1x8xf32>, tensor<i64>) -> tensor<2x1x1xf32>
    %7 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2x1x1xf32>
    %8 = stablehlo.add %6, %7 : tensor<2x1x1xf32>
    %9 = stablehlo.rsqrt %8 : tensor<2x1x1xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<2x1x1xf32>) -> tensor<2x1x8xf32>
    %11 = stablehlo.multiply %5, %10 : tensor<2x1x8xf32>
    %12 = stablehlo.dot_general %11, %arg4, contracting_dims = [2] x [0] : (tensor<2x1x8xf32>, tensor<8x24xf32>) -> tensor<2x1x24xf32>
    %13 = stablehlo.reshape %12 : (tensor<2x1x24xf32>) -> tensor<2x1x6x4xf32>
    %14 = stablehlo.transpose %13, dims = [0, 2, 1, 3] : (tensor<2x1x6x4xf32>) -> tensor<2x6x1x4xf32>
    %15 = stablehlo.slice %14 [0:2, 0:2, 0:1, 0:4] : (tensor<2x6x1x4xf32>) -> tensor<2x2x1x4xf32>
    %16 = stablehlo.slice %14 [0:2, 2:4, 0:1, 0:4] : (tensor<2x6x1x4xf32>) -> tensor<2x2x1x4xf32>
    %17 = stablehlo.slice %14 [0:2, 4:6, 0:1, 0:4] : (tensor<2x6x1x4xf32>) -> tensor<2x2x1x4xf32>
    %18 = stablehlo.compare LT, %c_4, %c_4, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %19 = stablehlo.add %c_4, %c_3 : tensor<i32>
    %20 = stablehlo.select %18, %19, %c_4 : tensor<i1>, tensor<i32>
    %21 = stablehlo.compare LT, %c_4, %c_4, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %22 = stablehlo.add %c_4, %c_3 : tensor<i32>
    %23 = stablehlo.select %21, %22, %c_4 : tensor<i1>, tensor<i32>
    %24 = stablehlo.compare LT, %arg3, %c_4, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %25 = stablehlo.add %arg3, %c_2 : tensor<i32>
    %26 = stablehlo.select %24, %25, %arg3 : tensor<i1>, tensor<i32>
    %27 = stablehlo.compare LT, %c_4, %c_4, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %28 = stablehlo.add %c_4, %c : tensor<i32>
    %29 = stablehlo.select %27, %28, %c_4 : tensor<i1>, tensor<i32>
    %30 = stablehlo.dynamic_update_slice %arg1, %16, %20, %23, %26, %29 : (tensor<2x2x6x4xf32>, tensor<2x2x1x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x2x6x4xf32>
    %31 = stablehlo.compare LT, %c_4, %c_4, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %32 = stablehlo.add %c_4, %c_3 : tensor<i32>
    %33 = stablehlo.select %31, %32, %c_4 : tensor<i1>, tensor<i32>
    %34 = stablehlo.compare LT, %c_4, %c_4, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %35 = stablehlo.add %c_4, %c_3 : tensor<i32>
    %36 = stablehlo.select %34, %35, %c_4 : tensor<i1>, tensor<i32>
    %37 = stablehlo.compare LT, %arg3, %c_4, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %38 = stablehlo.add %arg3, %c_2 : tensor<i32>
    %39 = stablehlo.select %37, %38, %arg3 : tensor<i1>, tensor<i32>
    %40 = stablehlo.compare LT, %c_4, %c_4, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %41 = stablehlo.add %c_4, %c : tensor<i32>
    %42 = stablehlo.select %40, %41, %c_4 : tensor<i1>, tensor<i32>
    %43 = stablehlo.dynamic_update_slice %arg2, %17, %33, %36, %39, %42 : (tensor<2x2x6x4xf32>, tensor<2x2x1x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x2x6x4xf32>
    %44 = stablehlo.dot_general %15, %30, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x2x1x4xf32>, tensor<2x2x6x4xf32>) -> tensor<2x2x1x6xf32>
    %45 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x2x1x6xf32>
    %46 = stablehlo.multiply %44, %45 : tensor<2x2x1x6xf32>
    %47 = stablehlo.iota dim = 0 : tensor<6xi64>
    %48 = stablehlo.convert %arg3 : (tensor<i32>) -> tensor<i64>
    %49 = stablehlo.broadcast_in_dim %48, dims = [] : (tensor<i64>) -> tensor<6xi64>
    %50 = stablehlo.compare LE, %47, %49, SIGNED : (tensor<6xi64>, tensor<6xi64>) -> tensor<6xi1>
    %51 = call @_where_0(%50, %46, %cst_0) : (tensor<6xi1>, tensor<2x2x1x6xf32>, tensor<f32>) -> tensor<2x2x1x6xf32>
    %52 = stablehlo.reduce(%51 init: %cst) applies stablehlo.maximum across dimensions = [3] : (tensor<2x2x1x6xf32>, tensor<f32>) -> tensor<2x2x1xf32>
    %53 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x2x1xf32>
    %54 = stablehlo.maximum %53, %52 : tensor<2x2x1xf32>
    %55 = stablehlo.broadcast_in_dim %54, dims = [0, 1, 2] : (tensor<2x2x1xf32>) -> tensor<2x2x1x1xf32>
    %56 = stablehlo.broadcast_in_dim %55, dims = [0, 1, 2, 3] : (tensor<2x2x1x1xf32>) -> tensor<2x2x1x6xf32>
    %57 = stablehlo.subtract %51, %56 : tensor<2x2x1x6xf32>
    %58 = stablehlo.exponential %57 : tensor<2x2x1x6xf32>
    %59 = stablehlo.reduce(%58 init: %cst_8) applies stablehlo.add across dimensions = [3] : (tensor<2x2x1x6xf32>, tensor<f32>) -> tensor<2x2x1xf32>
    %60 = stablehlo.broadcast_in_dim %59, dims = [0, 1, 2] : (tensor<2x2x1xf32>) -> tensor<2x2x1x1xf32>
    %61 = stablehlo.broadcast_in_dim %60, dims = [0, 1, 2, 3] : (tensor<2x2x1x1xf32>) -> tensor<2x2x1x6xf32>
    %62 = stablehlo.divide %58, %61 : tensor<2x2x1x6xf32>
    %63 = stablehlo.dot_general %43, %62, batching_dims = [0, 1] x [0, 1], contracting_dims = [2] x [3] : (tensor<2x2x6x4xf32>, tensor<2x2x1x6xf32>) -> tensor<2x2x4x1xf32>
    %64 = stablehlo.transpose %63, dims = [0, 3, 1, 2] : (tensor<2x2x4x1xf32>) -> tensor<2x1x2x4xf32>
    %65 = stablehlo.reshape %64 : (tensor<2x1x2x4xf32>) -> tensor<2x1x8xf32>
    %66 = stablehlo.add %arg0, %65 : tensor<2x1x8xf32>
    %67 = stablehlo.reshape %66 : (tensor<2x1x8xf32>) -> tensor<2x8xf32>
    %68 = stablehlo.dot_general %67, %arg5, contracting_dims = [1] x [0] : (tensor<2x8xf32>, tensor<8x16xf32>) -> tensor<2x16xf32>
    %69 = call @argmax(%68) : (tensor<2x16xf32>) -> tensor<2xi64>
    return %69, %68, %30, %43 : tensor<2xi64>, tensor<2x16xf32>, tensor<2x2x6x4xf32>, tensor<2x2x6x4xf32>
  }
  func.func private @_var(%arg0: tensor<2x1x8xf32>, %arg1: tensor<i64>) -> tensor<2x1x1xf32> {
    %cst = stablehlo.constant dense<0x7FF8000000000000> : tensor<f64>
    %cst_0 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<2x1x8xf32>, tensor<f32>) -> tensor<2x1xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<2x1xf32>) -> tensor<2x1x1xf32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x1x1xf32>
    %3 = stablehlo.divide %1, %2 : tensor<2x1x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x1x1xf32>) -> tensor<2x1x8xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<2x1x8xf32>
    %6 = stablehlo.multiply %5, %5 : tensor<2x1x8xf32>
    %7 = stablehlo.convert %arg1 : (tensor<i64>) -> tensor<f32>
    %8 = stablehlo.subtract %cst_0, %7 : tensor<f32>
    %9 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<2x1x8xf32>, tensor<f32>) -> tensor<2x1xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<2x1xf32>) -> tensor<2x1x1xf32>
    %11 = stablehlo.broadcast_in_dim %8, dims = [] : (tensor<f32>) -> tensor<2x1x1xf32>
    %12 = stablehlo.divide %10, %11 : tensor<2x1x1xf32>
    %13 = stablehlo.compare GT, %8, %cst_1, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %14 = call @_where(%13, %12, %cst) : (tensor<i1>, tensor<2x1x1xf32>, tensor<f64>) -> tensor<2x1x1xf32>
    return %14 : tensor<2x1x1xf32>
  }
  func.func private @_where(%arg0: tensor<i1>, %arg1: tensor<2x1x1xf32>, %arg2: tensor<f64>) -> tensor<2x1x1xf32> {
    %0 = stablehlo.convert %arg2 : (tensor<f64>) -> tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<2x1x1xf32>
    %2 = stablehlo.select %arg0, %arg1, %1 : tensor<i1>, tensor<2x1x1xf32>
    return %2 : tensor<2x1x1xf32>
  }
  func.func private @_where_0(%arg0: tensor<6xi1>, %arg1: tensor<2x2x1x6xf32>, %arg2: tensor<f32>) -> tensor<2x2x1x6xf32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [3] : (tensor<6xi1>) -> tensor<2x2x1x6xi1>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<2x2x1x6xf32>
    %2 = stablehlo.select %0, %arg1, %1 : tensor<2x2x1x6xi1>, tensor<2x2x1x6xf32>
    return %2 : tensor<2x2x1x6xf32>
  }
  func.func private @argmax(%arg0: tensor<2x16xf32>) -> tensor<2xi64> {
    %c = stablehlo.constant dense<0> : tensor<i64>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.iota dim = 1 : tensor<2x16xi64>
    %1:2 = stablehlo.reduce(%arg0 init: %cst), (%0 init: %c) across dimensions = [1] : (tensor<2x16xf32>, tensor<2x16xi64>, tensor<f32>, tensor<i64>) -> (tensor<2xf32>, tensor<2xi64>)
     reducer(%arg1: tensor<f32>, %arg3: tensor<f32>) (%arg2: tensor<i64>, %arg4: tensor<i64>)  {
      %2 = stablehlo.compare GT, %arg1, %arg3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %3 = stablehlo.compare NE, %arg1, %arg1, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %4 = stablehlo.or %2, %3 : tensor<i1>
      %5 = stablehlo.compare EQ, %arg1, %arg3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %6 = stablehlo.compare LT, %arg2, %arg4, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
      %7 = stablehlo.and %5, %6 : tensor<i1>
      %8 = stablehlo.or %4, %7 : tensor<i1>
      %9 = stablehlo.select %4, %arg1, %arg3 : tensor<i1>, tensor<f32>
      %10 = stablehlo.select %8, %arg2, %arg4 : tensor<i1>, tensor<i64>
      stablehlo.return %9, %10 : tensor<f32>, tensor<i64>
    }
    return %1#1 : tensor<2xi64>
  }
}
