module @jit_indexing attributes {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x6xf64>, %arg1: tensor<3xi32>, %arg2: tensor<3x6xf64>) -> (tensor<4x6xf64> {jax.result_info = "result[0]"}, tensor<4x6xi64> {jax.result_info = "result[1]"}, tensor<4xi64> {jax.result_info = "result[2]"}, tensor<i64> {jax.result_info = "result[3]"}, tensor<4x3xf64> {jax.result_info = "result[4][0]"}, tensor<4x3xi32> {jax.result_info = "result[4][1]"}, tensor<3x6xf64> {jax.result_info = "result[5]"}, tensor<3x3xf64> {jax.result_info = "result[6]"}, tensor<4x6xf64> {jax.result_info = "result[7]"}, tensor<4x6xf64> {jax.result_info = "result[8]"}, tensor<4x6xf64> {jax.result_info = "result[9]"}, tensor<4x6xf64> {jax.result_info = "result[10]"}, tensor<4x6xf64> {jax.result_info = "result[11]"}, tensor<4x6xf64> {jax.result_info = "result[12]"}, tensor<3x6xi32> {jax.result_info = "result[13]"}) {
    %cst = stablehlo.constant dense<5.000000e+00> : tensor<f64>
    %c = stablehlo.constant dense<6> : tensor<i64>
    %c_0 = stablehlo.constant dense<0> : tensor<i64>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %c_2 = stablehlo.constant dense<1> : tensor<i32>
    %c_3 = stablehlo.constant dense<2> : tensor<i32>
    %c_4 = stablehlo.constant dense<4> : tensor<i32>
    %c_5 = stablehlo.constant dense<0> : tensor<i32>
    %c_6 = stablehlo.constant dense<[0, 9, 2]> : tensor<3xi64>
    %0 = call @argsort(%arg0) : (tensor<4x6xf64>) -> tensor<4x6xi64>
    %1 = call @sort(%arg0) : (tensor<4x6xf64>) -> tensor<4x6xf64>
    %2 = call @argmax(%arg0) : (tensor<4x6xf64>) -> tensor<4xi64>
    %3 = stablehlo.reshape %arg0 : (tensor<4x6xf64>) -> tensor<24xf64>
    %4 = call @argmin(%3) : (tensor<24xf64>) -> tensor<i64>
    %5:2 = stablehlo.composite "chlo.top_k" %arg0 {composite_attributes = {k = 3 : i64}, decomposition = @chlo.top_k.impl, version = 1 : i32} : (tensor<4x6xf64>) -> (tensor<4x3xf64>, tensor<4x3xi32>)
    %6 = stablehlo.broadcast_in_dim %c_5, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %7 = stablehlo.compare LT, %arg1, %6, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
    %8 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %9 = stablehlo.add %arg1, %8 : tensor<3xi32>
    %10 = stablehlo.select %7, %9, %arg1 : tensor<3xi1>, tensor<3xi32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0] : (tensor<3xi32>) -> tensor<3x1xi32>
    %12 = "stablehlo.gather"(%arg0, %11) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 6>}> : (tensor<4x6xf64>, tensor<3x1xi32>) -> tensor<3x6xf64>
    %13 = stablehlo.broadcast_in_dim %c_5, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %14 = stablehlo.compare LT, %arg1, %13, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
    %15 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %16 = stablehlo.add %arg1, %15 : tensor<3xi32>
    %17 = stablehlo.select %14, %16, %arg1 : tensor<3xi1>, tensor<3xi32>
    %18 = stablehlo.iota dim = 0 : tensor<3xi32>
    %19 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %20 = stablehlo.multiply %19, %18 : tensor<3xi32>
    %21 = stablehlo.broadcast_in_dim %c_5, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %22 = stablehlo.add %21, %20 : tensor<3xi32>
    %23 = stablehlo.broadcast_in_dim %17, dims = [0] : (tensor<3xi32>) -> tensor<3x3x1xi32>
    %24 = stablehlo.broadcast_in_dim %22, dims = [1] : (tensor<3xi32>) -> tensor<3x3x1xi32>
    %25 = stablehlo.concatenate %23, %24, dim = 2 : (tensor<3x3x1xi32>, tensor<3x3x1xi32>) -> tensor<3x3x2xi32>
    %26 = "stablehlo.gather"(%arg0, %25) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1>}> : (tensor<4x6xf64>, tensor<3x3x2xi32>) -> tensor<3x3xf64>
    %27 = call @take_along_axis(%arg0, %0) : (tensor<4x6xf64>, tensor<4x6xi64>) -> tensor<4x6xf64>
    %28 = stablehlo.broadcast_in_dim %c_5, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %29 = stablehlo.compare LT, %arg1, %28, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
    %30 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %31 = stablehlo.add %arg1, %30 : tensor<3xi32>
    %32 = stablehlo.select %29, %31, %arg1 : tensor<3xi1>, tensor<3xi32>
    %33 = stablehlo.broadcast_in_dim %32, dims = [0] : (tensor<3xi32>) -> tensor<3x1xi32>
    %34 = "stablehlo.scatter"(%arg0, %33, %arg2) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%arg3: tensor<f64>, %arg4: tensor<f64>):
      %59 = stablehlo.add %arg3, %arg4 : tensor<f64>
      stablehlo.return %59 : tensor<f64>
    }) : (tensor<4x6xf64>, tensor<3x1xi32>, tensor<3x6xf64>) -> tensor<4x6xf64>
    %35 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %36 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f64>) -> tensor<4xf64>
    %37 = "stablehlo.scatter"(%arg0, %35, %36) <{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], inserted_window_dims = [1], scatter_dims_to_operand_dims = [1]>, unique_indices = true}> ({
    ^bb0(%arg3: tensor<f64>, %arg4: tensor<f64>):
      stablehlo.return %arg4 : tensor<f64>
    }) : (tensor<4x6xf64>, tensor<1xi32>, tensor<4xf64>) -> tensor<4x6xf64>
    %38 = stablehlo.broadcast_in_dim %c_5, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %39 = stablehlo.compare LT, %arg1, %38, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
    %40 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %41 = stablehlo.add %arg1, %40 : tensor<3xi32>
    %42 = stablehlo.select %39, %41, %arg1 : tensor<3xi1>, tensor<3xi32>
    %43 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i64>) -> tensor<3xi64>
    %44 = stablehlo.compare LT, %c_6, %43, SIGNED : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi1>
    %45 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i64>) -> tensor<3xi64>
    %46 = stablehlo.add %c_6, %45 : tensor<3xi64>
    %47 = stablehlo.select %44, %46, %c_6 : tensor<3xi1>, tensor<3xi64>
    %48 = stablehlo.convert %47 : (tensor<3xi64>) -> tensor<3xi32>
    %49 = stablehlo.broadcast_in_dim %42, dims = [0] : (tensor<3xi32>) -> tensor<3x1xi32>
    %50 = stablehlo.broadcast_in_dim %48, dims = [0] : (tensor<3xi32>) -> tensor<3x1xi32>
    %51 = stablehlo.concatenate %49, %50, dim = 1 : (tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x2xi32>
    %52 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<3xf64>
    %53 = "stablehlo.scatter"(%arg0, %51, %52) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>}> ({
    ^bb0(%arg3: tensor<f64>, %arg4: tensor<f64>):
      %59 = stablehlo.maximum %arg3, %arg4 : tensor<f64>
      stablehlo.return %59 : tensor<f64>
    }) : (tensor<4x6xf64>, tensor<3x2xi32>, tensor<3xf64>) -> tensor<4x6xf64>
    %54 = call @cumsum(%arg0) : (tensor<4x6xf64>) -> tensor<4x6xf64>
    %55 = call @cummax(%arg0) : (tensor<4x6xf64>) -> tensor<4x6xf64>
    %56 = stablehlo.slice %arg0 [0:1, 0:6] : (tensor<4x6xf64>) -> tensor<1x6xf64>
    %57 = stablehlo.reshape %56 : (tensor<1x6xf64>) -> tensor<6xf64>
    %58 = call @searchsorted(%57, %arg2) : (tensor<6xf64>, tensor<3x6xf64>) -> tensor<3x6xi32>
    return %1, %0, %2, %4, %5#0, %5#1, %12, %26, %27, %34, %37, %53, %54, %55, %58 : tensor<4x6xf64>, tensor<4x6xi64>, tensor<4xi64>, tensor<i64>, tensor<4x3xf64>, tensor<4x3xi32>, tensor<3x6xf64>, tensor<3x3xf64>, tensor<4x6xf64>, tensor<4x6xf64>, tensor<4x6xf64>, tensor<4x6xf64>, tensor<4x6xf64>, tensor<4x6xf64>, tensor<3x6xi32>
  }
  func.func private @chlo.top_k.impl(%arg0: tensor<4x6xf64>) -> (tensor<4x3xf64>, tensor<4x3xi32>) {
    %0 = stablehlo.iota dim = 1 : tensor<4x6xi32>
    %1:2 = "stablehlo.sort"(%arg0, %0) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%arg1: tensor<f64>, %arg2: tensor<f64>, %arg3: tensor<i32>, %arg4: tensor<i32>):
      %4 = stablehlo.compare GT, %arg1, %arg2, TOTALORDER : (tensor<f64>, tensor<f64>) -> tensor<i1>
      stablehlo.return %4 : tensor<i1>
    }) : (tensor<4x6xf64>, tensor<4x6xi32>) -> (tensor<4x6xf64>, tensor<4x6xi32>)
    %2 = stablehlo.slice %1#0 [0:4, 0:3] : (tensor<4x6xf64>) -> tensor<4x3xf64>
    %3 = stablehlo.slice %1#1 [0:4, 0:3] : (tensor<4x6xi32>) -> tensor<4x3xi32>
    return %2, %3 : tensor<4x3xf64>, tensor<4x3xi32>
  }
  func.func private @argsort(%arg0: tensor<4x6xf64>) -> tensor<4x6xi64> {
    %cst = stablehlo.constant dense<0x7FF8000000000000> : tensor<f64>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %0 = stablehlo.iota dim = 1 : tensor<4x6xi64>
    %1:2 = "stablehlo.sort"(%arg0, %0) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%arg1: tensor<f64>, %arg2: tensor<f64>, %arg3: tensor<i64>, %arg4: tensor<i64>):
      %2 = stablehlo.compare EQ, %arg1, %cst_0, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %3 = stablehlo.select %2, %cst_0, %arg1 : tensor<i1>, tensor<f64>
      %4 = stablehlo.compare NE, %arg1, %arg1, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %5 = stablehlo.select %4, %cst, %3 : tensor<i1>, tensor<f64>
      %6 = stablehlo.compare EQ, %arg2, %cst_0, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %7 = stablehlo.select %6, %cst_0, %arg2 : tensor<i1>, tensor<f64>
      %8 = stablehlo.compare NE, %arg2, %arg2, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %9 = stablehlo.select %8, %cst, %7 : tensor<i1>, tensor<f64>
      %10 = stablehlo.compare LT, %5, %9, TOTALORDER : (tensor<f64>, tensor<f64>) -> tensor<i1>
      stablehlo.return %10 : tensor<i1>
    }) : (tensor<4x6xf64>, tensor<4x6xi64>) -> (tensor<4x6xf64>, tensor<4x6xi64>)
    return %1#1 : tensor<4x6xi64>
  }
  func.func private @sort(%arg0: tensor<4x6xf64>) -> tensor<4x6xf64> {
    %cst = stablehlo.constant dense<0x7FF8000000000000> : tensor<f64>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %0 = "stablehlo.sort"(%arg0) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%arg1: tensor<f64>, %arg2: tensor<f64>):
      %1 = stablehlo.compare EQ, %arg1, %cst_0, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %2 = stablehlo.select %1, %cst_0, %arg1 : tensor<i1>, tensor<f64>
      %3 = stablehlo.compare NE, %arg1, %arg1, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %4 = stablehlo.select %3, %cst, %2 : tensor<i1>, tensor<f64>
      %5 = stablehlo.compare EQ, %arg2, %cst_0, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %6 = stablehlo.select %5, %cst_0, %arg2 : tensor<i1>, tensor<f64>
      %7 = stablehlo.compare NE, %arg2, %arg2, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %8 = stablehlo.select %7, %cst, %6 : tensor<i1>, tensor<f64>
      %9 = stablehlo.compare LT, %4, %8, TOTALORDER : (tensor<f64>, tensor<f64>) -> tensor<i1>
      stablehlo.return %9 : tensor<i1>
    }) : (tensor<4x6xf64>) -> tensor<4x6xf64>
    return %0 : tensor<4x6xf64>
  }
  func.func private @argmax(%arg0: tensor<4x6xf64>) -> tensor<4xi64> {
    %c = stablehlo.constant dense<0> : tensor<i64>
    %cst = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
    %0 = stablehlo.iota dim = 1 : tensor<4x6xi64>
    %1:2 = stablehlo.reduce(%arg0 init: %cst), (%0 init: %c) across dimensions = [1] : (tensor<4x6xf64>, tensor<4x6xi64>, tensor<f64>, tensor<i64>) -> (tensor<4xf64>, tensor<4xi64>)
     reducer(%arg1: tensor<f64>, %arg3: tensor<f64>) (%arg2: tensor<i64>, %arg4: tensor<i64>)  {
      %2 = stablehlo.compare GT, %arg1, %arg3, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %3 = stablehlo.compare NE, %arg1, %arg1, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %4 = stablehlo.or %2, %3 : tensor<i1>
      %5 = stablehlo.compare EQ, %arg1, %arg3, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %6 = stablehlo.compare LT, %arg2, %arg4, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
      %7 = stablehlo.and %5, %6 : tensor<i1>
      %8 = stablehlo.or %4, %7 : tensor<i1>
      %9 = stablehlo.select %4, %arg1, %arg3 : tensor<i1>, tensor<f64>
      %10 = stablehlo.select %8, %arg2, %arg4 : tensor<i1>, tensor<i64>
      stablehlo.return %9, %10 : tensor<f64>, tensor<i64>
    }
    return %1#1 : tensor<4xi64>
  }
  func.func private @argmin(%arg0: tensor<24xf64>) -> tensor<i64> {
    %c = stablehlo.constant dense<0> : tensor<i64>
    %cst = stablehlo.constant dense<0x7FF0000000000000> : tensor<f64>
    %0 = stablehlo.iota dim = 0 : tensor<24xi64>
    %1:2 = stablehlo.reduce(%arg0 init: %cst), (%0 init: %c) across dimensions = [0] : (tensor<24xf64>, tensor<24xi64>, tensor<f64>, tensor<i64>) -> (tensor<f64>, tensor<i64>)
     reducer(%arg1: tensor<f64>, %arg3: tensor<f64>) (%arg2: tensor<i64>, %arg4: tensor<i64>)  {
      %2 = stablehlo.compare LT, %arg1, %arg3, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %3 = stablehlo.compare NE, %arg1, %arg1, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %4 = stablehlo.or %2, %3 : tensor<i1>
      %5 = stablehlo.compare EQ, %arg1, %arg3, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %6 = stablehlo.compare LT, %arg2, %arg4, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
      %7 = stablehlo.and %5, %6 : tensor<i1>
      %8 = stablehlo.or %4, %7 : tensor<i1>
      %9 = stablehlo.select %4, %arg1, %arg3 : tensor<i1>, tensor<f64>
      %10 = stablehlo.select %8, %arg2, %arg4 : tensor<i1>, tensor<i64>
      stablehlo.return %9, %10 : tensor<f64>, tensor<i64>
    }
    return %1#1 : tensor<i64>
  }
  func.func private @take_along_axis(%arg0: tensor<4x6xf64>, %arg1: tensor<4x6xi64>) -> tensor<4x6xf64> {
    %cst = stablehlo.constant dense<0x7FF8000000000000> : tensor<f64>
    %c = stablehlo.constant dense<true> : tensor<i1>
    %c_0 = stablehlo.constant dense<5> : tensor<1xi32>
    %c_1 = stablehlo.constant dense<6> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.convert %arg1 : (tensor<4x6xi64>) -> tensor<4x6xi32>
    %1 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<4x6xi32>
    %2 = stablehlo.compare LT, %0, %1, SIGNED : (tensor<4x6xi32>, tensor<4x6xi32>) -> tensor<4x6xi1>
    %3 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<4x6xi32>
    %4 = stablehlo.add %0, %3 : tensor<4x6xi32>
    %5 = stablehlo.select %2, %4, %0 : tensor<4x6xi1>, tensor<4x6xi32>
    %6 = stablehlo.reshape %5 : (tensor<4x6xi32>) -> tensor<4x6x1xi32>
    %7 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<4x6x1xi32>
    %8 = stablehlo.compare GE, %6, %7, SIGNED : (tensor<4x6x1xi32>, tensor<4x6x1xi32>) -> tensor<4x6x1xi1>
    %9 = stablehlo.broadcast_in_dim %c_0, dims = [2] : (tensor<1xi32>) -> tensor<1x1x1xi32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<1x1x1xi32>) -> tensor<4x6x1xi32>
    %11 = stablehlo.compare LE, %6, %10, SIGNED : (tensor<4x6x1xi32>, tensor<4x6x1xi32>) -> tensor<4x6x1xi1>
    %12 = stablehlo.and %8, %11 : tensor<4x6x1xi1>
    %13 = stablehlo.reduce(%12 init: %c) applies stablehlo.and across dimensions = [2] : (tensor<4x6x1xi1>, tensor<i1>) -> tensor<4x6xi1>
    %14 = "stablehlo.gather"(%arg0, %6) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1>}> : (tensor<4x6xf64>, tensor<4x6x1xi32>) -> tensor<4x6xf64>
    %15 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<4x6xf64>
    %16 = stablehlo.select %13, %14, %15 : tensor<4x6xi1>, tensor<4x6xf64>
    return %16 : tensor<4x6xf64>
  }
  func.func private @cumsum(%arg0: tensor<4x6xf64>) -> tensor<4x6xf64> {
    %0 = call @cumsum_0(%arg0) : (tensor<4x6xf64>) -> tensor<4x6xf64>
    return %0 : tensor<4x6xf64>
  }
  func.func private @cumsum_0(%arg0: tensor<4x6xf64>) -> tensor<4x6xf64> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<f64>
    %1 = "stablehlo.reduce_window"(%arg0, %0) <{padding = dense<[[0, 0], [5, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 6>}> ({
    ^bb0(%arg1: tensor<f64>, %arg2: tensor<f64>):
      %2 = stablehlo.add %arg1, %arg2 : tensor<f64>
      stablehlo.return %2 : tensor<f64>
    }) : (tensor<4x6xf64>, tensor<f64>) -> tensor<4x6xf64>
    return %1 : tensor<4x6xf64>
  }
  func.func private @cummax(%arg0: tensor<4x6xf64>) -> tensor<4x6xf64> {
    %cst = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<f64>
    %1 = "stablehlo.reduce_window"(%arg0, %0) <{padding = dense<[[3, 0], [0, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 4, 1>}> ({
    ^bb0(%arg1: tensor<f64>, %arg2: tensor<f64>):
      %2 = stablehlo.maximum %arg1, %arg2 : tensor<f64>
      stablehlo.return %2 : tensor<f64>
    }) : (tensor<4x6xf64>, tensor<f64>) -> tensor<4x6xf64>
    return %1 : tensor<4x6xf64>
  }
  func.func private @searchsorted(%arg0: tensor<6xf64>, %arg1: tensor<3x6xf64>) -> tensor<3x6xi32> {
    %0 = call @_searchsorted_scan_impl(%arg0, %arg1) : (tensor<6xf64>, tensor<3x6xf64>) -> tensor<3x6xi32>
    return %0 : tensor<3x6xi32>
  }
  func.func private @_searchsorted_scan_impl(%arg0: tensor<6xf64>, %arg1: tensor<3x6xf64>) -> tensor<3x6xi32> {
    %0 = call @_searchsorted_scan_impl_1(%arg0, %arg1) : (tensor<6xf64>, tensor<3x6xf64>) -> tensor<3x6xi32>
    return %0 : tensor<3x6xi32>
  }
  func.func private @_searchsorted_scan_impl_1(%arg0: tensor<6xf64>, %arg1: tensor<3x6xf64>) -> tensor<3x6xi32> {
    %0 = call @_searchsorted_scan_impl_2(%arg0, %arg1) : (tensor<6xf64>, tensor<3x6xf64>) -> tensor<3x6xi32>
    return %0 : tensor<3x6xi32>
  }
  func.func private @_searchsorted_scan_impl_2(%arg0: tensor<6xf64>, %arg1: tensor<3x6xf64>) -> tensor<3x6xi32> {
    %c = stablehlo.constant dense<1> : tensor<i64>
    %c_0 = stablehlo.constant dense<3> : tensor<i64>
    %c_1 = stablehlo.constant dense<0> : tensor<i64>
    %c_2 = stablehlo.constant dense<6> : tensor<ui32>
    %c_3 = stablehlo.constant dense<0> : tensor<ui32>
    %0 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<ui32>) -> tensor<6xui32>
    %1 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<ui32>) -> tensor<6xui32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<6xui32>) -> tensor<3x6xui32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [1] : (tensor<6xui32>) -> tensor<3x6xui32>
    %4:5 = stablehlo.while(%iterArg = %arg0, %iterArg_4 = %arg1, %iterArg_5 = %c_1, %iterArg_6 = %2, %iterArg_7 = %3) : tensor<6xf64>, tensor<3x6xf64>, tensor<i64>, tensor<3x6xui32>, tensor<3x6xui32>
    cond {
      %6 = stablehlo.compare LT, %iterArg_5, %c_0, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %6 : tensor<i1>
    } do {
      %6:2 = func.call @closed_call(%iterArg, %iterArg_4, %iterArg_6, %iterArg_7) : (tensor<6xf64>, tensor<3x6xf64>, tensor<3x6xui32>, tensor<3x6xui32>) -> (tensor<3x6xui32>, tensor<3x6xui32>)
      %7 = stablehlo.add %iterArg_5, %c : tensor<i64>
      stablehlo.return %iterArg, %iterArg_4, %7, %6#0, %6#1 : tensor<6xf64>, tensor<3x6xf64>, tensor<i64>, tensor<3x6xui32>, tensor<3x6xui32>
    }
    %5 = stablehlo.convert %4#4 : (tensor<3x6xui32>) -> tensor<3x6xi32>
    return %5 : tensor<3x6xi32>
  }
  func.func private @closed_call(%arg0: tensor<6xf64>, %arg1: tensor<3x6xf64>, %arg2: tensor<3x6xui32>, %arg3: tensor<3x6xui32>) -> (tensor<3x6xui32>, tensor<3x6xui32>) {
    %cst = stablehlo.constant dense<0x7FF8000000000000> : tensor<f64>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %c = stablehlo.constant dense<2> : tensor<i64>
    %0 = stablehlo.subtract %arg3, %arg2 : tensor<3x6xui32>
    %1 = call @floor_divide(%0, %c) : (tensor<3x6xui32>, tensor<i64>) -> tensor<3x6xui32>
    %2 = stablehlo.add %arg2, %1 : tensor<3x6xui32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<3x6xui32>) -> tensor<3x6x1xui32>
    %4 = "stablehlo.gather"(%arg0, %3) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1>}> : (tensor<6xf64>, tensor<3x6x1xui32>) -> tensor<3x6x1xf64>
    %5 = stablehlo.reshape %4 : (tensor<3x6x1xf64>) -> tensor<3x6xf64>
    %6 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f64>) -> tensor<3x6xf64>
    %7 = stablehlo.compare EQ, %arg1, %6, FLOAT : (tensor<3x6xf64>, tensor<3x6xf64>) -> tensor<3x6xi1>
    %8 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f64>) -> tensor<6xf64>
    %9 = stablehlo.broadcast_in_dim %8, dims = [1] : (tensor<6xf64>) -> tensor<3x6xf64>
    %10 = stablehlo.select %7, %9, %arg1 : tensor<3x6xi1>, tensor<3x6xf64>
    %11 = stablehlo.compare NE, %arg1, %arg1, FLOAT : (tensor<3x6xf64>, tensor<3x6xf64>) -> tensor<3x6xi1>
    %12 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<6xf64>
    %13 = stablehlo.broadcast_in_dim %12, dims = [1] : (tensor<6xf64>) -> tensor<3x6xf64>
    %14 = stablehlo.select %11, %13, %10 : tensor<3x6xi1>, tensor<3x6xf64>
    %15 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f64>) -> tensor<3x6xf64>
    %16 = stablehlo.compare EQ, %5, %15, FLOAT : (tensor<3x6xf64>, tensor<3x6xf64>) -> tensor<3x6xi1>
    %17 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f64>) -> tensor<6xf64>
    %18 = stablehlo.broadcast_in_dim %17, dims = [1] : (tensor<6xf64>) -> tensor<3x6xf64>
    %19 = stablehlo.select %16, %18, %5 : tensor<3x6xi1>, tensor<3x6xf64>
    %20 = stablehlo.compare NE, %5, %5, FLOAT : (tensor<3x6xf64>, tensor<3x6xf64>) -> tensor<3x6xi1>
    %21 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<6xf64>
    %22 = stablehlo.broadcast_in_dim %21, dims = [1] : (tensor<6xf64>) -> tensor<3x6xf64>
    %23 = stablehlo.select %20, %22, %19 : tensor<3x6xi1>, tensor<3x6xf64>
    %24 = stablehlo.compare LE, %14, %23, TOTALORDER : (tensor<3x6xf64>, tensor<3x6xf64>) -> tensor<3x6xi1>
    %25 = stablehlo.select %24, %arg2, %2 : tensor<3x6xi1>, tensor<3x6xui32>
    %26 = stablehlo.select %24, %2, %arg3 : tensor<3x6xi1>, tensor<3x6xui32>
    return %25, %26 : tensor<3x6xui32>, tensor<3x6xui32>
  }
  func.func private @floor_divide(%arg0: tensor<3x6xui32>, %arg1: tensor<i64>) -> tensor<3x6xui32> {
    %0 = stablehlo.convert %arg1 : (tensor<i64>) -> tensor<ui32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<ui32>) -> tensor<3x6xui32>
    %2 = stablehlo.divide %arg0, %1 : tensor<3x6xui32>
    return %2 : tensor<3x6xui32>
  }
}
