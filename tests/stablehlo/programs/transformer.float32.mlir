module @jit_transformer attributes {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x6x8xf32>, %arg1: tensor<8x24xf32>, %arg2: tensor<8x8xf32>, %arg3: tensor<8x32xf32>, %arg4: tensor<32x8xf32>) -> (tensor<2x6x8xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<1.12837911> : tensor<2x6x32xf32>
    %cst_0 = stablehlo.constant dense<-0.37612626> : tensor<2x6x32xf32>
    %cst_1 = stablehlo.constant dense<0.112835854> : tensor<2x6x32xf32>
    %cst_2 = stablehlo.constant dense<-0.0268538129> : tensor<2x6x32xf32>
    %cst_3 = stablehlo.constant dense<0.00518832775> : tensor<2x6x32xf32>
    %cst_4 = stablehlo.constant dense<-8.0101937E-4> : tensor<2x6x32xf32>
    %cst_5 = stablehlo.constant dense<7.85386146E-5> : tensor<2x6x32xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<2x6x32xf32>
    %cst_7 = stablehlo.constant dense<-88.7228394> : tensor<2x6x32xf32>
    %cst_8 = stablehlo.constant dense<0.564189494> : tensor<2x6x32xf32>
    %cst_9 = stablehlo.constant dense<-0.282076746> : tensor<2x6x32xf32>
    %cst_10 = stablehlo.constant dense<0.42184633> : tensor<2x6x32xf32>
    %cst_11 = stablehlo.constant dense<-1.01526523> : tensor<2x6x32xf32>
    %cst_12 = stablehlo.constant dense<2.92101908> : tensor<2x6x32xf32>
    %cst_13 = stablehlo.constant dense<-7.49551868> : tensor<2x6x32xf32>
    %cst_14 = stablehlo.constant dense<1.297720e+01> : tensor<2x6x32xf32>
    %cst_15 = stablehlo.constant dense<-10.477664> : tensor<2x6x32xf32>
    %cst_16 = stablehlo.constant dense<0.563825965> : tensor<2x6x32xf32>
    %cst_17 = stablehlo.constant dense<-0.274112701> : tensor<2x6x32xf32>
    %cst_18 = stablehlo.constant dense<3.404880e-01> : tensor<2x6x32xf32>
    %cst_19 = stablehlo.constant dense<-0.494451523> : tensor<2x6x32xf32>
    %cst_20 = stablehlo.constant dense<0.621000468> : tensor<2x6x32xf32>
    %cst_21 = stablehlo.constant dense<-0.582473278> : tensor<2x6x32xf32>
    %cst_22 = stablehlo.constant dense<0.368742466> : tensor<2x6x32xf32>
    %cst_23 = stablehlo.constant dense<-0.138703942> : tensor<2x6x32xf32>
    %cst_24 = stablehlo.constant dense<2.326820e-02> : tensor<2x6x32xf32>
    %cst_25 = stablehlo.constant dense<2.000000e+00> : tensor<2x6x32xf32>
    %cst_26 = stablehlo.constant dense<1.000000e+00> : tensor<2x6x32xf32>
    %cst_27 = stablehlo.constant dense<0.707106769> : tensor<f32>
    %cst_28 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %cst_29 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %cst_30 = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
    %c = stablehlo.constant dense<true> : tensor<i1>
    %cst_31 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %cst_32 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %c_33 = stablehlo.constant dense<0> : tensor<i64>
    %cst_34 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %cst_35 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst_35) applies stablehlo.add across dimensions = [2] : (tensor<2x6x8xf32>, tensor<f32>) -> tensor<2x6xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<2x6xf32>) -> tensor<2x6x1xf32>
    %2 = stablehlo.broadcast_in_dim %cst_34, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %3 = stablehlo.divide %1, %2 : tensor<2x6x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x6x1xf32>) -> tensor<2x6x8xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<2x6x8xf32>
    %6 = call @_var(%arg0, %c_33) : (tensor<2x6x8xf32>, tensor<i64>) -> tensor<2x6x1xf32>
    %7 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %8 = stablehlo.add %6, %7 : tensor<2x6x1xf32>
    %9 = stablehlo.rsqrt %8 : tensor<2x6x1xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<2x6x1xf32>) -> tensor<2x6x8xf32>
    %11 = stablehlo.multiply %5, %10 : tensor<2x6x8xf32>
    %12 = stablehlo.dot_general %11, %arg1, contracting_dims = [2] x [0] : (tensor<2x6x8xf32>, tensor<8x24xf32>) -> tensor<2x6x24xf32>
    %13 = stablehlo.reshape %12 : (tensor<2x6x24xf32>) -> tensor<2x6x6x4xf32>
    %14 = stablehlo.slice %13 [0:2, 0:6, 0:2, 0:4] : (tensor<2x6x6x4xf32>) -> tensor<2x6x2x4xf32>
    %15 = stablehlo.slice %13 [0:2, 0:6, 2:4, 0:4] : (tensor<2x6x6x4xf32>) -> tensor<2x6x2x4xf32>
    %16 = stablehlo.slice %13 [0:2, 0:6, 4:6, 0:4] : (tensor<2x6x6x4xf32>) -> tensor<2x6x2x4xf32>
    %17 = stablehlo.dot_general %14, %15, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32>) -> tensor<2x2x6x6xf32>
    %18 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f32>) -> tensor<2x2x6x6xf32>
    %19 = stablehlo.divide %17, %18 : tensor<2x2x6x6xf32>
    %20 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<6x6xi1>
    %21 = call @tril(%20) : (tensor<6x6xi1>) -> tensor<6x6xi1>
    %22 = call @_where_0(%21, %19, %cst_30) : (tensor<6x6xi1>, tensor<2x2x6x6xf32>, tensor<f64>) -> tensor<2x2x6x6xf32>
    %23 = stablehlo.reduce(%22 init: %cst_29) applies stablehlo.maximum across dimensions = [3] : (tensor<2x2x6x6xf32>, tensor<f32>) -> tensor<2x2x6xf32>
    %24 = stablehlo.broadcast_in_dim %cst_29, dims = [] : (tensor<f32>) -> tensor<2x2x6xf32>
    %25 = stablehlo.maximum %24, %23 : tensor<2x2x6xf32>
    %26 = stablehlo.broadcast_in_dim %25, dims = [0, 1, 2] : (tensor<2x2x6xf32>) -> tensor<2x2x6x1xf32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [0, 1, 2, 3] : (tensor<2x2x6x1xf32>) -> tensor<2x2x6x6xf32>
    %28 = stablehlo.subtract %22, %27 : tensor<2x2x6x6xf32>
    %29 = stablehlo.exponential %28 : tensor<2x2x6x6xf32>
    %30 = stablehlo.reduce(%29 init: %cst_35) applies stablehlo.add across dimensions = [3] : (tensor<2x2x6x6xf32>, tensor<f32>) -> tensor<2x2x6xf32>
    %31 = stablehlo.broadcast_in_dim %30, dims = [0, 1, 2] : (tensor<2x2x6xf32>) -> tensor<2x2x6x1xf32>
    %32 = stablehlo.broadcast_in_dim %31, dims = [0, 1, 2, 3] : (tensor<2x2x6x1xf32>) -> tensor<2x2x6x6xf32>
    %33 = stablehlo.divide %29, %32 : tensor<2x2x6x6xf32>
    %34 = stablehlo.dot_general %16, %33, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3] : (tensor<2x6x2x4xf32>, tensor<2x2x6x6xf32>) -> tensor<2x2x4x6xf32>
    %35 = stablehlo.transpose %34, dims = [0, 3, 1, 2] : (tensor<2x2x4x6xf32>) -> tensor<2x6x2x4xf32>
    %36 = stablehlo.reshape %35 : (tensor<2x6x2x4xf32>) -> tensor<2x6x8xf32>
    %37 = stablehlo.dot_general %36, %arg2, contracting_dims = [2] x [0] : (tensor<2x6x8xf32>, tensor<8x8xf32>) -> tensor<2x6x8xf32>
    %38 = stablehlo.add %arg0, %37 : tensor<2x6x8xf32>
    %39 = stablehlo.reduce(%38 init: %cst_35) applies stablehlo.add across dimensions = [2] : (tensor<2x6x8xf32>, tensor<f32>) -> tensor<2x6xf32>
    %40 = stablehlo.broadcast_in_dim %39, dims = [0, 1] : (tensor<2x6xf32>) -> tensor<2x6x1xf32>
    %41 = stablehlo.broadcast_in_dim %cst_34, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %42 = stablehlo.divide %40, %41 : tensor<2x6x1xf32>
    %43 = stablehlo.broadcast_in_dim %42, dims = [0, 1, 2] : (tensor<2x6x1xf32>) -> tensor<2x6x8xf32>
    %44 = stablehlo.subtract %38, %43 : tensor<2x6x8xf32>
    %45 = call @_var(%38, %c_33) : (tensor<2x6x8xf32>, tensor<i64>) -> tensor<2x6x1xf32>
    %46 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %47 = stablehlo.add %45, %46 : tensor<2x6x1xf32>
    %48 = stablehlo.rsqrt %47 : tensor<2x6x1xf32>
    %49 = stablehlo.broadcast_in_dim %48, dims = [0, 1, 2] : (tensor<2x6x1xf32>) -> tensor<2x6x8xf32>
    %50 = stablehlo.multiply %44, %49 : tensor<2x6x8xf32>
    %51 = stablehlo.dot_general %50, %arg3, contracting_dims = [2] x [0] : (tensor<2x6x8xf32>, tensor<8x32xf32>) -> tensor<2x6x32xf32>
    %52 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<2x6x32xf32>
    %53 = stablehlo.multiply %52, %51 : tensor<2x6x32xf32>
    %54 = stablehlo.negate %51 : tensor<2x6x32xf32>
    %55 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<2x6x32xf32>
    %56 = stablehlo.multiply %54, %55 : tensor<2x6x32xf32>
    %57 = stablehlo.multiply %56, %56 : tensor<2x6x32xf32>
    %58 = stablehlo.negate %57 : tensor<2x6x32xf32>
    %59 = stablehlo.abs %56 : tensor<2x6x32xf32>
    %60 = stablehlo.divide %cst_26, %57 : tensor<2x6x32xf32>
    %61 = stablehlo.exponential %58 : tensor<2x6x32xf32>
    %62 = stablehlo.divide %cst_26, %59 : tensor<2x6x32xf32>
    %63 = stablehlo.multiply %61, %62 : tensor<2x6x32xf32>
    %64 = stablehlo.compare LT, %59, %cst_25 : (tensor<2x6x32xf32>, tensor<2x6x32xf32>) -> tensor<2x6x32xi1>
    %65 = stablehlo.multiply %cst_24, %60 : tensor<2x6x32xf32>
    %66 = stablehlo.add %65, %cst_23 : tensor<2x6x32xf32>
    %67 = stablehlo.multiply %66, %60 : tensor<2x6x32xf32>
    %68 = stablehlo.add %67, %cst_22 : tensor<2x6x32xf32>
    %69 = stablehlo.multiply %68, %60 : tensor<2x6x32xf32>
    %70 = stablehlo.add %69, %cst_21 : tensor<2x6x32xf32>
    %71 = stablehlo.multiply %70, %60 : tensor<2x6x32xf32>
    %72 = stablehlo.add %71, %cst_20 : tensor<2x6x32xf32>
    %73 = stablehlo.multiply %72, %60 : tensor<2x6x32xf32>
    %74 = stablehlo.add %73, %cst_19 : tensor<2x6x32xf32>
    %75 = stablehlo.multiply %74, %60 : tensor<2x6x32xf32>
    %76 = stablehlo.add %75, %cst_18 : tensor<2x6x32xf32>
    %77 = stablehlo.multiply %76, %60 : tensor<2x6x32xf32>
    %78 = stablehlo.add %77, %cst_17 : tensor<2x6x32xf32>
    %79 = stablehlo.multiply %78, %60 : tensor<2x6x32xf32>
    %80 = stablehlo.add %79, %cst_16 : tensor<2x6x32xf32>
    %81 = stablehlo.multiply %cst_15, %60 : tensor<2x6x32xf32>
    %82 = stablehlo.add %81, %cst_14 : tensor<2x6x32xf32>
    %83 = stablehlo.multiply %82, %60 : tensor<2x6x32xf32>
    %84 = stablehlo.add %83, %cst_13 : tensor<2x6x32xf32>
    %85 = stablehlo.multiply %84, %60 : tensor<2x6x32xf32>
    %86 = stablehlo.add %85, %cst_12 : tensor<2x6x32xf32>
    %87 = stablehlo.multiply %86, %60 : tensor<2x6x32xf32>
    %88 = stablehlo.add %87, %cst_11 : tensor<2x6x32xf32>
    %89 = stablehlo.multiply %88, %60 : tensor<2x6x32xf32>
    %90 = stablehlo.add %89, %cst_10 : tensor<2x6x32xf32>
    %91 = stablehlo.multiply %90, %60 : tensor<2x6x32xf32>
    %92 = stablehlo.add %91, %cst_9 : tensor<2x6x32xf32>
    %93 = stablehlo.multiply %92, %60 : tensor<2x6x32xf32>
    %94 = stablehlo.add %93, %cst_8 : tensor<2x6x32xf32>
    %95 = stablehlo.select %64, %80, %94 : tensor<2x6x32xi1>, tensor<2x6x32xf32>
    %96 = stablehlo.multiply %63, %95 : tensor<2x6x32xf32>
    %97 = stablehlo.compare LT, %58, %cst_7 : (tensor<2x6x32xf32>, tensor<2x6x32xf32>) -> tensor<2x6x32xi1>
    %98 = stablehlo.select %97, %cst_6, %96 : tensor<2x6x32xi1>, tensor<2x6x32xf32>
    %99 = stablehlo.compare LT, %56, %cst_6 : (tensor<2x6x32xf32>, tensor<2x6x32xf32>) -> tensor<2x6x32xi1>
    %100 = stablehlo.subtract %cst_25, %98 : tensor<2x6x32xf32>
    %101 = stablehlo.select %99, %100, %98 : tensor<2x6x32xi1>, tensor<2x6x32xf32>
    %102 = stablehlo.multiply %56, %56 : tensor<2x6x32xf32>
    %103 = stablehlo.multiply %cst_5, %102 : tensor<2x6x32xf32>
    %104 = stablehlo.add %103, %cst_4 : tensor<2x6x32xf32>
    %105 = stablehlo.multiply %104, %102 : tensor<2x6x32xf32>
    %106 = stablehlo.add %105, %cst_3 : tensor<2x6x32xf32>
    %107 = stablehlo.multiply %106, %102 : tensor<2x6x32xf32>
    %108 = stablehlo.add %107, %cst_2 : tensor<2x6x32xf32>
    %109 = stablehlo.multiply %108, %102 : tensor<2x6x32xf32>
    %110 = stablehlo.add %109, %cst_1 : tensor<2x6x32xf32>
    %111 = stablehlo.multiply %110, %102 : tensor<2x6x32xf32>
    %112 = stablehlo.add %111, %cst_0 : tensor<2x6x32xf32>
    %113 = stablehlo.multiply %112, %102 : tensor<2x6x32xf32>
    %114 = stablehlo.add %113, %cst : tensor<2x6x32xf32>
    %115 = stablehlo.multiply %56, %114 : tensor<2x6x32xf32>
    %116 = stablehlo.subtract %cst_26, %115 : tensor<2x6x32xf32>
    %117 = stablehlo.abs %56 : tensor<2x6x32xf32>
    %118 = stablehlo.compare LT, %117, %cst_26 : (tensor<2x6x32xf32>, tensor<2x6x32xf32>) -> tensor<2x6x32xi1>
    %119 = stablehlo.select %118, %116, %101 : tensor<2x6x32xi1>, tensor<2x6x32xf32>
    %120 = stablehlo.multiply %53, %119 : tensor<2x6x32xf32>
    %121 = stablehlo.dot_general %120, %arg4, contracting_dims = [2] x [0] : (tensor<2x6x32xf32>, tensor<32x8xf32>) -> tensor<2x6x8xf32>
    %122 = stablehlo.add %38, %121 : tensor<2x6x8xf32>
    return %122 : tensor<2x6x8xf32>
  }
  func.func private @_var(%arg0: tensor<2x6x8xf32>, %arg1: tensor<i64>) -> tensor<2x6x1xf32> {
    %cst = stablehlo.constant dense<0x7FF8000000000000> : tensor<f64>
    %cst_0 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<2x6x8xf32>, tensor<f32>) -> tensor<2x6xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<2x6xf32>) -> tensor<2x6x1xf32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %3 = stablehlo.divide %1, %2 : tensor<2x6x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x6x1xf32>) -> tensor<2x6x8xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<2x6x8xf32>
    %6 = stablehlo.multiply %5, %5 : tensor<2x6x8xf32>
    %7 = stablehlo.convert %arg1 : (tensor<i64>) -> tensor<f32>
    %8 = stablehlo.subtract %cst_0, %7 : tensor<f32>
    %9 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<2x6x8xf32>, tensor<f32>) -> tensor<2x6xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<2x6xf32>) -> tensor<2x6x1xf32>
    %11 = stablehlo.broadcast_in_dim %8, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %12 = stablehlo.divide %10, %11 : tensor<2x6x1xf32>
    %13 = stablehlo.compare GT, %8, %cst_1, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %14 = call @_where(%13, %12, %cst) : (tensor<i1>, tensor<2x6x1xf32>, tensor<f64>) -> tensor<2x6x1xf32>
    return %14 : tensor<2x6x1xf32>
  }
  func.func private @_where(%arg0: tensor<i1>, %arg1: tensor<2x6x1xf32>, %arg2: tensor<f64>) -> tensor<2x6x1xf32> {
    %0 = stablehlo.convert %arg2 : (tensor<f64>) -> tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %2 = stablehlo.select %arg0, %arg1, %1 : tensor<i1>, tensor<2x6x1xf32>
    return %2 : tensor<2x6x1xf32>
  }
  func.func private @tril(%arg0: tensor<6x6xi1>) -> tensor<6x6xi1> {
    %c = stablehlo.constant dense<false> : tensor<i1>
    %c_0 = stablehlo.constant dense<0> : tensor<i64>
    %0 = stablehlo.iota dim = 0 : tensor<6x6xi64>
    %1 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i64>) -> tensor<6x6xi64>
    %2 = stablehlo.add %0, %1 : tensor<6x6xi64>
    %3 = stablehlo.iota dim = 1 : tensor<6x6xi64>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<6x6xi64>, tensor<6x6xi64>) -> tensor<6x6xi1>
    %5 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<6x6xi1>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<6x6xi1>, tensor<6x6xi1>
    return %6 : tensor<6x6xi1>
  }
  func.func private @_where_0(%arg0: tensor<6x6xi1>, %arg1: tensor<2x2x6x6xf32>, %arg2: tensor<f64>) -> tensor<2x2x6x6xf32> {
    %0 = stablehlo.convert %arg2 : (tensor<f64>) -> tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<6x6xi1>) -> tensor<2x2x6x6xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<2x2x6x6xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<2x2x6x6xi1>, tensor<2x2x6x6xf32>
    return %3 : tensor<2x2x6x6xf32>
  }
}
