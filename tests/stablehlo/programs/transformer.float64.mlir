module @jit_transformer attributes {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x6x8xf64>, %arg1: tensor<8x24xf64>, %arg2: tensor<8x8xf64>, %arg3: tensor<8x32xf64>, %arg4: tensor<32x8xf64>) -> (tensor<2x6x8xf64> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<49267.394260863592> : tensor<2x6x32xf64>
    %cst_0 = stablehlo.constant dense<22629.000061389095> : tensor<2x6x32xf64>
    %cst_1 = stablehlo.constant dense<4594.3238297098014> : tensor<2x6x32xf64>
    %cst_2 = stablehlo.constant dense<521.35794978015269> : tensor<2x6x32xf64>
    %cst_3 = stablehlo.constant dense<33.561714164750313> : tensor<2x6x32xf64>
    %cst_4 = stablehlo.constant dense<55592.301301039493> : tensor<2x6x32xf64>
    %cst_5 = stablehlo.constant dense<7003.3251411280507> : tensor<2x6x32xf64>
    %cst_6 = stablehlo.constant dense<2232.0053459468431> : tensor<2x6x32xf64>
    %cst_7 = stablehlo.constant dense<90.026019720384269> : tensor<2x6x32xf64>
    %cst_8 = stablehlo.constant dense<9.6049737398705161> : tensor<2x6x32xf64>
    %cst_9 = stablehlo.constant dense<2.000000e+00> : tensor<2x6x32xf64>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<2x6x32xf64>
    %cst_11 = stablehlo.constant dense<-709.78271289338397> : tensor<2x6x32xf64>
    %cst_12 = stablehlo.constant dense<8.000000e+00> : tensor<2x6x32xf64>
    %cst_13 = stablehlo.constant dense<3.3690764510008151> : tensor<2x6x32xf64>
    %cst_14 = stablehlo.constant dense<9.6089680906328585> : tensor<2x6x32xf64>
    %cst_15 = stablehlo.constant dense<17.081445074756591> : tensor<2x6x32xf64>
    %cst_16 = stablehlo.constant dense<12.048953980809666> : tensor<2x6x32xf64>
    %cst_17 = stablehlo.constant dense<9.3960352493800147> : tensor<2x6x32xf64>
    %cst_18 = stablehlo.constant dense<2.2605286322011726> : tensor<2x6x32xf64>
    %cst_19 = stablehlo.constant dense<2.9788666537210022> : tensor<2x6x32xf64>
    %cst_20 = stablehlo.constant dense<7.4097426995044895> : tensor<2x6x32xf64>
    %cst_21 = stablehlo.constant dense<6.160210979930536> : tensor<2x6x32xf64>
    %cst_22 = stablehlo.constant dense<5.0190504225118051> : tensor<2x6x32xf64>
    %cst_23 = stablehlo.constant dense<1.275366707599781> : tensor<2x6x32xf64>
    %cst_24 = stablehlo.constant dense<0.56418958354775506> : tensor<2x6x32xf64>
    %cst_25 = stablehlo.constant dense<557.53534081772773> : tensor<2x6x32xf64>
    %cst_26 = stablehlo.constant dense<1656.6630919416134> : tensor<2x6x32xf64>
    %cst_27 = stablehlo.constant dense<2246.3376081871097> : tensor<2x6x32xf64>
    %cst_28 = stablehlo.constant dense<1823.9091668790973> : tensor<2x6x32xf64>
    %cst_29 = stablehlo.constant dense<975.70850174320549> : tensor<2x6x32xf64>
    %cst_30 = stablehlo.constant dense<354.93777888781989> : tensor<2x6x32xf64>
    %cst_31 = stablehlo.constant dense<86.707214088598973> : tensor<2x6x32xf64>
    %cst_32 = stablehlo.constant dense<13.228195115474499> : tensor<2x6x32xf64>
    %cst_33 = stablehlo.constant dense<1.000000e+00> : tensor<2x6x32xf64>
    %cst_34 = stablehlo.constant dense<557.53533536939938> : tensor<2x6x32xf64>
    %cst_35 = stablehlo.constant dense<1027.5518868951572> : tensor<2x6x32xf64>
    %cst_36 = stablehlo.constant dense<934.52852717195765> : tensor<2x6x32xf64>
    %cst_37 = stablehlo.constant dense<526.44519499547732> : tensor<2x6x32xf64>
    %cst_38 = stablehlo.constant dense<196.5208329560771> : tensor<2x6x32xf64>
    %cst_39 = stablehlo.constant dense<48.637197098568137> : tensor<2x6x32xf64>
    %cst_40 = stablehlo.constant dense<7.4632105644226989> : tensor<2x6x32xf64>
    %cst_41 = stablehlo.constant dense<0.56418956483106886> : tensor<2x6x32xf64>
    %cst_42 = stablehlo.constant dense<2.4619698147353052E-10> : tensor<2x6x32xf64>
    %cst_43 = stablehlo.constant dense<0.70710678118654757> : tensor<f64>
    %cst_44 = stablehlo.constant dense<5.000000e-01> : tensor<f64>
    %cst_45 = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
    %c = stablehlo.constant dense<true> : tensor<i1>
    %cst_46 = stablehlo.constant dense<2.000000e+00> : tensor<f64>
    %cst_47 = stablehlo.constant dense<1.000000e-05> : tensor<f64>
    %c_48 = stablehlo.constant dense<0> : tensor<i64>
    %cst_49 = stablehlo.constant dense<8.000000e+00> : tensor<f64>
    %cst_50 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %0 = stablehlo.reduce(%arg0 init: %cst_50) applies stablehlo.add across dimensions = [2] : (tensor<2x6x8xf64>, tensor<f64>) -> tensor<2x6xf64>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<2x6xf64>) -> tensor<2x6x1xf64>
    %2 = stablehlo.broadcast_in_dim %cst_49, dims = [] : (tensor<f64>) -> tensor<2x6x1xf64>
    %3 = stablehlo.divide %1, %2 : tensor<2x6x1xf64>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x6x1xf64>) -> tensor<2x6x8xf64>
    %5 = stablehlo.subtract %arg0, %4 : tensor<2x6x8xf64>
    %6 = call @_var(%arg0, %c_48) : (tensor<2x6x8xf64>, tensor<i64>) -> tensor<2x6x1xf64>
    %7 = stablehlo.broadcast_in_dim %cst_47, dims = [] : (tensor<f64>) -> tensor<2x6x1xf64>
    %8 = stablehlo.add %6, %7 : tensor<2x6x1xf64>
    %9 = stablehlo.rsqrt %8 : tensor<2x6x1xf64>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<2x6x1xf64>) -> tensor<2x6x8xf64>
    %11 = stablehlo.multiply %5, %10 : tensor<2x6x8xf64>
    %12 = stablehlo.dot_general %11, %arg1, contracting_dims = [2] x [0] : (tensor<2x6x8xf64>, tensor<8x24xf64>) -> tensor<2x6x24xf64>
    %13 = stablehlo.reshape %12 : (tensor<2x6x24xf64>) -> tensor<2x6x6x4xf64>
    %14 = stablehlo.slice %13 [0:2, 0:6, 0:2, 0:4] : (tensor<2x6x6x4xf64>) -> tensor<2x6x2x4xf64>
    %15 = stablehlo.slice %13 [0:2, 0:6, 2:4, 0:4] : (tensor<2x6x6x4xf64>) -> tensor<2x6x2x4xf64>
    %16 = stablehlo.slice %13 [0:2, 0:6, 4:6, 0:4] : (tensor<2x6x6x4xf64>) -> tensor<2x6x2x4xf64>
    %17 = stablehlo.dot_general %14, %15, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x6x2x4xf64>, tensor<2x6x2x4xf64>) -> tensor<2x2x6x6xf64>
    %18 = stablehlo.broadcast_in_dim %cst_46, dims = [] : (tensor<f64>) -> tensor<2x2x6x6xf64>
    %19 = stablehlo.divide %17, %18 : tensor<2x2x6x6xf64>
    %20 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<6x6xi1>
    %21 = call @tril(%20) : (tensor<6x6xi1>) -> tensor<6x6xi1>
    %22 = call @_where_0(%21, %19, %cst_45) : (tensor<6x6xi1>, tensor<2x2x6x6xf64>, tensor<f64>) -> tensor<2x2x6x6xf64>
    %23 = stablehlo.reduce(%22 init: %cst_45) applies stablehlo.maximum across dimensions = [3] : (tensor<2x2x6x6xf64>, tensor<f64>) -> tensor<2x2x6xf64>
    %24 = stablehlo.broadcast_in_dim %cst_45, dims = [] : (tensor<f64>) -> tensor<2x2x6xf64>
    %25 = stablehlo.maximum %24, %23 : tensor<2x2x6xf64>
    %26 = stablehlo.broadcast_in_dim %25, dims = [0, 1, 2] : (tensor<2x2x6xf64>) -> tensor<2x2x6x1xf64>
    %27 = stablehlo.broadcast_in_dim %26, dims = [0, 1, 2, 3] : (tensor<2x2x6x1xf64>) -> tensor<2x2x6x6xf64>
    %28 = stablehlo.subtract %22, %27 : tensor<2x2x6x6xf64>
    %29 = stablehlo.exponential %28 : tensor<2x2x6x6xf64>
    %30 = stablehlo.reduce(%29 init: %cst_50) applies stablehlo.add across dimensions = [3] : (tensor<2x2x6x6xf64>, tensor<f64>) -> tensor<2x2x6xf64>
    %31 = stablehlo.broadcast_in_dim %30, dims = [0, 1, 2] : (tensor<2x2x6xf64>) -> tensor<2x2x6x1xf64>
    %32 = stablehlo.broadcast_in_dim %31, dims = [0, 1, 2, 3] : (tensor<2x2x6x1xf64>) -> tensor<2x2x6x6xf64>
    %33 = stablehlo.divide %29, %32 : tensor<2x2x6x6xf64>
    %34 = stablehlo.dot_general %16, %33, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3] : (tensor<2x6x2x4xf64>, tensor<2x2x6x6xf64>) -> tensor<2x2x4x6xf64>
    %35 = stablehlo.transpose %34, dims = [0, 3, 1, 2] : (tensor<2x2x4x6xf64>) -> tensor<2x6x2x4xf64>
    %36 = stablehlo.reshape %35 : (tensor<2x6x2x4xf64>) -> tensor<2x6x8xf64>
    %37 = stablehlo.dot_general %36, %arg2, contracting_dims = [2] x [0] : (tensor<2x6x8xf64>, tensor<8x8xf64>) -> tensor<2x6x8xf64>
    %38 = stablehlo.add %arg0, %37 : tensor<2x6x8xf64>
    %39 = stablehlo.reduce(%38 init: %cst_50) applies stablehlo.add across dimensions = [2] : (tensor<2x6x8xf64>, tensor<f64>) -> tensor<2x6xf64>
    %40 = stablehlo.broadcast_in_dim %39, dims = [0, 1] : (tensor<2x6xf64>) -> tensor<2x6x1xf64>
    %41 = stablehlo.broadcast_in_dim %cst_49, dims = [] : (tensor<f64>) -> tensor<2x6x1xf64>
    %42 = stablehlo.divide %40, %41 : tensor<2x6x1xf64>
    %43 = stablehlo.broadcast_in_dim %42, dims = [0, 1, 2] : (tensor<2x6x1xf64>) -> tensor<2x6x8xf64>
    %44 = stablehlo.subtract %38, %43 : tensor<2x6x8xf64>
    %45 = call @_var(%38, %c_48) : (tensor<2x6x8xf64>, tensor<i64>) -> tensor<2x6x1xf64>
    %46 = stablehlo.broadcast_in_dim %cst_47, dims = [] : (tensor<f64>) -> tensor<2x6x1xf64>
    %47 = stablehlo.add %45, %46 : tensor<2x6x1xf64>
    %48 = stablehlo.rsqrt %47 : tensor<2x6x1xf64>
    %49 = stablehlo.broadcast_in_dim %48, dims = [0, 1, 2] : (tensor<2x6x1xf64>) -> tensor<2x6x8xf64>
    %50 = stablehlo.multiply %44, %49 : tensor<2x6x8xf64>
    %51 = stablehlo.dot_general %50, %arg3, contracting_dims = [2] x [0] : (tensor<2x6x8xf64>, tensor<8x32xf64>) -> tensor<2x6x32xf64>
    %52 = stablehlo.broadcast_in_dim %cst_44, dims = [] : (tensor<f64>) -> tensor<2x6x32xf64>
    %53 = stablehlo.multiply %52, %51 : tensor<2x6x32xf64>
    %54 = stablehlo.negate %51 : tensor<2x6x32xf64>
    %55 = stablehlo.broadcast_in_dim %cst_43, dims = [] : (tensor<f64>) -> tensor<2x6x32xf64>
    %56 = stablehlo.multiply %54, %55 : tensor<2x6x32xf64>
    %57 = stablehlo.multiply %56, %56 : tensor<2x6x32xf64>
    %58 = stablehlo.negate %57 : tensor<2x6x32xf64>
    %59 = stablehlo.exponential %58 : tensor<2x6x32xf64>
    %60 = stablehlo.abs %56 : tensor<2x6x32xf64>
    %61 = stablehlo.multiply %cst_42, %60 : tensor<2x6x32xf64>
    %62 = stablehlo.add %61, %cst_41 : tensor<2x6x32xf64>
    %63 = stablehlo.multiply %62, %60 : tensor<2x6x32xf64>
    %64 = stablehlo.add %63, %cst_40 : tensor<2x6x32xf64>
    %65 = stablehlo.multiply %64, %60 : tensor<2x6x32xf64>
    %66 = stablehlo.add %65, %cst_39 : tensor<2x6x32xf64>
    %67 = stablehlo.multiply %66, %60 : tensor<2x6x32xf64>
    %68 = stablehlo.add %67, %cst_38 : tensor<2x6x32xf64>
    %69 = stablehlo.multiply %68, %60 : tensor<2x6x32xf64>
    %70 = stablehlo.add %69, %cst_37 : tensor<2x6x32xf64>
    %71 = stablehlo.multiply %70, %60 : tensor<2x6x32xf64>
    %72 = stablehlo.add %71, %cst_36 : tensor<2x6x32xf64>
    %73 = stablehlo.multiply %72, %60 : tensor<2x6x32xf64>
    %74 = stablehlo.add %73, %cst_35 : tensor<2x6x32xf64>
    %75 = stablehlo.multiply %74, %60 : tensor<2x6x32xf64>
    %76 = stablehlo.add %75, %cst_34 : tensor<2x6x32xf64>
    %77 = stablehlo.multiply %59, %76 : tensor<2x6x32xf64>
    %78 = stablehlo.multiply %cst_33, %60 : tensor<2x6x32xf64>
    %79 = stablehlo.add %78, %cst_32 : tensor<2x6x32xf64>
    %80 = stablehlo.multiply %79, %60 : tensor<2x6x32xf64>
    %81 = stablehlo.add %80, %cst_31 : tensor<2x6x32xf64>
    %82 = stablehlo.multiply %81, %60 : tensor<2x6x32xf64>
    %83 = stablehlo.add %82, %cst_30 : tensor<2x6x32xf64>
    %84 = stablehlo.multiply %83, %60 : tensor<2x6x32xf64>
    %85 = stablehlo.add %84, %cst_29 : tensor<2x6x32xf64>
    %86 = stablehlo.multiply %85, %60 : tensor<2x6x32xf64>
    %87 = stablehlo.add %86, %cst_28 : tensor<2x6x32xf64>
    %88 = stablehlo.multiply %87, %60 : tensor<2x6x32xf64>
    %89 = stablehlo.add %88, %cst_27 : tensor<2x6x32xf64>
    %90 = stablehlo.multiply %89, %60 : tensor<2x6x32xf64>
    %91 = stablehlo.add %90, %cst_26 : tensor<2x6x32xf64>
    %92 = stablehlo.multiply %91, %60 : tensor<2x6x32xf64>
    %93 = stablehlo.add %92, %cst_25 : tensor<2x6x32xf64>
    %94 = stablehlo.divide %77, %93 : tensor<2x6x32xf64>
    %95 = stablehlo.multiply %cst_24, %60 : tensor<2x6x32xf64>
    %96 = stablehlo.add %95, %cst_23 : tensor<2x6x32xf64>
    %97 = stablehlo.multiply %96, %60 : tensor<2x6x32xf64>
    %98 = stablehlo.add %97, %cst_22 : tensor<2x6x32xf64>
    %99 = stablehlo.multiply %98, %60 : tensor<2x6x32xf64>
    %100 = stablehlo.add %99, %cst_21 : tensor<2x6x32xf64>
    %101 = stablehlo.multiply %100, %60 : tensor<2x6x32xf64>
    %102 = stablehlo.add %101, %cst_20 : tensor<2x6x32xf64>
    %103 = stablehlo.multiply %102, %60 : tensor<2x6x32xf64>
    %104 = stablehlo.add %103, %cst_19 : tensor<2x6x32xf64>
    %105 = stablehlo.multiply %59, %104 : tensor<2x6x32xf64>
    %106 = stablehlo.multiply %cst_33, %60 : tensor<2x6x32xf64>
    %107 = stablehlo.add %106, %cst_18 : tensor<2x6x32xf64>
    %108 = stablehlo.multiply %107, %60 : tensor<2x6x32xf64>
    %109 = stablehlo.add %108, %cst_17 : tensor<2x6x32xf64>
    %110 = stablehlo.multiply %109, %60 : tensor<2x6x32xf64>
    %111 = stablehlo.add %110, %cst_16 : tensor<2x6x32xf64>
    %112 = stablehlo.multiply %111, %60 : tensor<2x6x32xf64>
    %113 = stablehlo.add %112, %cst_15 : tensor<2x6x32xf64>
    %114 = stablehlo.multiply %113, %60 : tensor<2x6x32xf64>
    %115 = stablehlo.add %114, %cst_14 : tensor<2x6x32xf64>
    %116 = stablehlo.multiply %115, %60 : tensor<2x6x32xf64>
    %117 = stablehlo.add %116, %cst_13 : tensor<2x6x32xf64>
    %118 = stablehlo.divide %105, %117 : tensor<2x6x32xf64>
    %119 = stablehlo.compare LT, %60, %cst_12 : (tensor<2x6x32xf64>, tensor<2x6x32xf64>) -> tensor<2x6x32xi1>
    %120 = stablehlo.select %119, %94, %118 : tensor<2x6x32xi1>, tensor<2x6x32xf64>
    %121 = stablehlo.compare LT, %58, %cst_11 : (tensor<2x6x32xf64>, tensor<2x6x32xf64>) -> tensor<2x6x32xi1>
    %122 = stablehlo.select %121, %cst_10, %120 : tensor<2x6x32xi1>, tensor<2x6x32xf64>
    %123 = stablehlo.compare LT, %56, %cst_10 : (tensor<2x6x32xf64>, tensor<2x6x32xf64>) -> tensor<2x6x32xi1>
    %124 = stablehlo.subtract %cst_9, %122 : tensor<2x6x32xf64>
    %125 = stablehlo.select %123, %124, %122 : tensor<2x6x32xi1>, tensor<2x6x32xf64>
    %126 = stablehlo.multiply %56, %56 : tensor<2x6x32xf64>
    %127 = stablehlo.multiply %cst_8, %126 : tensor<2x6x32xf64>
    %128 = stablehlo.add %127, %cst_7 : tensor<2x6x32xf64>
    %129 = stablehlo.multiply %128, %126 : tensor<2x6x32xf64>
    %130 = stablehlo.add %129, %cst_6 : tensor<2x6x32xf64>
    %131 = stablehlo.multiply %130, %126 : tensor<2x6x32xf64>
    %132 = stablehlo.add %131, %cst_5 : tensor<2x6x32xf64>
    %133 = stablehlo.multiply %132, %126 : tensor<2x6x32xf64>
    %134 = stablehlo.add %133, %cst_4 : tensor<2x6x32xf64>
    %135 = stablehlo.multiply %56, %134 : tensor<2x6x32xf64>
    %136 = stablehlo.multiply %cst_33, %126 : tensor<2x6x32xf64>
    %137 = stablehlo.add %136, %cst_3 : tensor<2x6x32xf64>
    %138 = stablehlo.multiply %137, %126 : tensor<2x6x32xf64>
    %139 = stablehlo.add %138, %cst_2 : tensor<2x6x32xf64>
    %140 = stablehlo.multiply %139, %126 : tensor<2x6x32xf64>
    %141 = stablehlo.add %140, %cst_1 : tensor<2x6x32xf64>
    %142 = stablehlo.multiply %141, %126 : tensor<2x6x32xf64>
    %143 = stablehlo.add %142, %cst_0 : tensor<2x6x32xf64>
    %144 = stablehlo.multiply %143, %126 : tensor<2x6x32xf64>
    %145 = stablehlo.add %144, %cst : tensor<2x6x32xf64>
    %146 = stablehlo.divide %135, %145 : tensor<2x6x32xf64>
    %147 = stablehlo.subtract %cst_33, %146 : tensor<2x6x32xf64>
    %148 = stablehlo.abs %56 : tensor<2x6x32xf64>
    %149 = stablehlo.compare LT, %148, %cst_33 : (tensor<2x6x32xf64>, tensor<2x6x32xf64>) -> tensor<2x6x32xi1>
    %150 = stablehlo.select %149, %147, %125 : tensor<2x6x32xi1>, tensor<2x6x32xf64>
    %151 = stablehlo.multiply %53, %150 : tensor<2x6x32xf64>
    %152 = stablehlo.dot_general %151, %arg4, contracting_dims = [2] x [0] : (tensor<2x6x32xf64>, tensor<32x8xf64>) -> tensor<2x6x8xf64>
    %153 = stablehlo.add %38, %152 : tensor<2x6x8xf64>
    return %153 : tensor<2x6x8xf64>
  }
  func.func private @_var(%arg0: tensor<2x6x8xf64>, %arg1: tensor<i64>) -> tensor<2x6x1xf64> {
    %cst = stablehlo.constant dense<0x7FF8000000000000> : tensor<f64>
    %cst_0 = stablehlo.constant dense<8.000000e+00> : tensor<f64>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %0 = stablehlo.reduce(%arg0 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<2x6x8xf64>, tensor<f64>) -> tensor<2x6xf64>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<2x6xf64>) -> tensor<2x6x1xf64>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f64>) -> tensor<2x6x1xf64>
    %3 = stablehlo.divide %1, %2 : tensor<2x6x1xf64>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x6x1xf64>) -> tensor<2x6x8xf64>
    %5 = stablehlo.subtract %arg0, %4 : tensor<2x6x8xf64>
    %6 = stablehlo.multiply %5, %5 : tensor<2x6x8xf64>
    %7 = stablehlo.convert %arg1 : (tensor<i64>) -> tensor<f64>
    %8 = stablehlo.subtract %cst_0, %7 : tensor<f64>
    %9 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<2x6x8xf64>, tensor<f64>) -> tensor<2x6xf64>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<2x6xf64>) -> tensor<2x6x1xf64>
    %11 = stablehlo.broadcast_in_dim %8, dims = [] : (tensor<f64>) -> tensor<2x6x1xf64>
    %12 = stablehlo.divide %10, %11 : tensor<2x6x1xf64>
    %13 = stablehlo.compare GT, %8, %cst_1, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
    %14 = call @_where(%13, %12, %cst) : (tensor<i1>, tensor<2x6x1xf64>, tensor<f64>) -> tensor<2x6x1xf64>
    return %14 : tensor<2x6x1xf64>
  }
  func.func private @_where(%arg0: tensor<i1>, %arg1: tensor<2x6x1xf64>, %arg2: tensor<f64>) -> tensor<2x6x1xf64> {
    %0 = stablehlo.convert %arg2 : tensor<f64>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f64>) -> tensor<2x6x1xf64>
    %2 = stablehlo.select %arg0, %arg1, %1 : tensor<i1>, tensor<2x6x1xf64>
    return %2 : tensor<2x6x1xf64>
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
  func.func private @_where_0(%arg0: tensor<6x6xi1>, %arg1: tensor<2x2x6x6xf64>, %arg2: tensor<f64>) -> tensor<2x2x6x6xf64> {
    %0 = stablehlo.convert %arg2 : tensor<f64>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<6x6xi1>) -> tensor<2x2x6x6xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f64>) -> tensor<2x2x6x6xf64>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<2x2x6x6xi1>, tensor<2x2x6x6xf64>
    return %3 : tensor<2x2x6x6xf64>
  }
}
