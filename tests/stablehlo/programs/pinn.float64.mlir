module @jit_pinn attributes {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<7x2xf64>, %arg1: tensor<2x8xf64>, %arg2: tensor<8xf64>) -> (tensor<f64> {jax.result_info = "result[0][0]"}, tensor<7xf64> {jax.result_info = "result[0][1]"}, tensor<2x8xf64> {jax.result_info = "result[1][0]"}, tensor<8xf64> {jax.result_info = "result[1][1]"}) {
    %cst = stablehlo.constant dense<7.000000e+00> : tensor<f64>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %cst_1 = stablehlo.constant dense<2.000000e+00> : tensor<f64>
    %c = stablehlo.constant dense<0> : tensor<i64>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<7x2xf64>, tensor<2x8xf64>) -> tensor<7x8xf64>
    %1 = stablehlo.tanh %0 : tensor<7x8xf64>
    %2 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f64>) -> tensor<7x8xf64>
    %3 = stablehlo.subtract %2, %1 : tensor<7x8xf64>
    %4 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f64>) -> tensor<7x8xf64>
    %5 = stablehlo.subtract %4, %1 : tensor<7x8xf64>
    %6 = stablehlo.dot_general %cst_2, %arg2, contracting_dims = [] x [] : (tensor<f64>, tensor<8xf64>) -> tensor<8xf64>
    %7 = stablehlo.broadcast_in_dim %6, dims = [1] : (tensor<8xf64>) -> tensor<1x8xf64>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<1x8xf64>) -> tensor<7x8xf64>
    %9 = stablehlo.multiply %8, %5 : tensor<7x8xf64>
    %10 = stablehlo.multiply %9, %1 : tensor<7x8xf64>
    %11 = stablehlo.add %9, %10 : tensor<7x8xf64>
    %12 = stablehlo.dot_general %11, %arg1, contracting_dims = [1] x [1] : (tensor<7x8xf64>, tensor<2x8xf64>) -> tensor<7x2xf64>
    %13 = stablehlo.slice %12 [0:7, 1:2] : (tensor<7x2xf64>) -> tensor<7x1xf64>
    %14 = stablehlo.reshape %13 : (tensor<7x1xf64>) -> tensor<7xf64>
    %15 = stablehlo.iota dim = 0 : tensor<2x2xi64>
    %16 = stablehlo.iota dim = 1 : tensor<2x2xi64>
    %17 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i64>) -> tensor<2x2xi64>
    %18 = stablehlo.add %15, %17 : tensor<2x2xi64>
    %19 = stablehlo.compare EQ, %18, %16, SIGNED : (tensor<2x2xi64>, tensor<2x2xi64>) -> tensor<2x2xi1>
    %20 = stablehlo.convert %19 : (tensor<2x2xi1>) -> tensor<2x2xf64>
    %21 = stablehlo.slice %20 [0:2, 0:2] : (tensor<2x2xf64>) -> tensor<2x2xf64>
    %22 = stablehlo.convert %21 : tensor<2x2xf64>
    %23 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<7x2xf64>, tensor<2x8xf64>) -> tensor<7x8xf64>
    %24 = stablehlo.dot_general %22, %arg1, contracting_dims = [1] x [0] : (tensor<2x2xf64>, tensor<2x8xf64>) -> tensor<2x8xf64>
    %25 = stablehlo.tanh %23 : tensor<7x8xf64>
    %26 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f64>) -> tensor<7x8xf64>
    %27 = stablehlo.subtract %26, %25 : tensor<7x8xf64>
    %28 = stablehlo.broadcast_in_dim %25, dims = [0, 2] : (tensor<7x8xf64>) -> tensor<7x1x8xf64>
    %29 = stablehlo.broadcast_in_dim %24, dims = [1, 2] : (tensor<2x8xf64>) -> tensor<1x2x8xf64>
    %30 = stablehlo.broadcast_in_dim %29, dims = [0, 1, 2] : (tensor<1x2x8xf64>) -> tensor<7x2x8xf64>
    %31 = stablehlo.broadcast_in_dim %28, dims = [0, 1, 2] : (tensor<7x1x8xf64>) -> tensor<7x2x8xf64>
    %32 = stablehlo.multiply %30, %31 : tensor<7x2x8xf64>
    %33 = stablehlo.broadcast_in_dim %24, dims = [1, 2] : (tensor<2x8xf64>) -> tensor<1x2x8xf64>
    %34 = stablehlo.broadcast_in_dim %33, dims = [0, 1, 2] : (tensor<1x2x8xf64>) -> tensor<7x2x8xf64>
    %35 = stablehlo.add %34, %32 : tensor<7x2x8xf64>
    %36 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f64>) -> tensor<7x8xf64>
    %37 = stablehlo.subtract %36, %25 : tensor<7x8xf64>
    %38 = stablehlo.broadcast_in_dim %37, dims = [0, 2] : (tensor<7x8xf64>) -> tensor<7x1x8xf64>
    %39 = stablehlo.broadcast_in_dim %38, dims = [0, 1, 2] : (tensor<7x1x8xf64>) -> tensor<7x2x8xf64>
    %40 = stablehlo.multiply %35, %39 : tensor<7x2x8xf64>
    %41 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f64>) -> tensor<7x8xf64>
    %42 = stablehlo.subtract %41, %25 : tensor<7x8xf64>
    %43 = stablehlo.negate %40 : tensor<7x2x8xf64>
    %44 = stablehlo.iota dim = 0 : tensor<1x1xi64>
    %45 = stablehlo.iota dim = 1 : tensor<1x1xi64>
    %46 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i64>) -> tensor<1x1xi64>
    %47 = stablehlo.add %44, %46 : tensor<1x1xi64>
    %48 = stablehlo.compare EQ, %47, %45, SIGNED : (tensor<1x1xi64>, tensor<1x1xi64>) -> tensor<1x1xi1>
    %49 = stablehlo.convert %48 : (tensor<1x1xi1>) -> tensor<1x1xf64>
    %50 = stablehlo.slice %49 [0:1, 0:1] : (tensor<1x1xf64>) -> tensor<1x1xf64>
    %51 = stablehlo.reshape %50 : (tensor<1x1xf64>) -> tensor<1xf64>
    %52 = stablehlo.convert %51 : tensor<1xf64>
    %53 = stablehlo.dot_general %52, %arg2, contracting_dims = [] x [] : (tensor<1xf64>, tensor<8xf64>) -> tensor<1x8xf64>
    %54 = stablehlo.broadcast_in_dim %42, dims = [0, 2] : (tensor<7x8xf64>) -> tensor<7x1x8xf64>
    %55 = stablehlo.broadcast_in_dim %43, dims = [0, 1, 3] : (tensor<7x2x8xf64>) -> tensor<7x2x1x8xf64>
    %56 = stablehlo.broadcast_in_dim %53, dims = [1, 2] : (tensor<1x8xf64>) -> tensor<1x1x8xf64>
    %57 = stablehlo.broadcast_in_dim %56, dims = [0, 1, 2] : (tensor<1x1x8xf64>) -> tensor<7x1x8xf64>
    %58 = stablehlo.multiply %57, %54 : tensor<7x1x8xf64>
    %59 = stablehlo.broadcast_in_dim %53, dims = [1, 2] : (tensor<1x8xf64>) -> tensor<1x1x8xf64>
    %60 = stablehlo.broadcast_in_dim %59, dims = [1, 2, 3] : (tensor<1x1x8xf64>) -> tensor<1x1x1x8xf64>
    %61 = stablehlo.broadcast_in_dim %60, dims = [0, 1, 2, 3] : (tensor<1x1x1x8xf64>) -> tensor<7x2x1x8xf64>
    %62 = stablehlo.multiply %61, %55 : tensor<7x2x1x8xf64>
    %63 = stablehlo.broadcast_in_dim %25, dims = [0, 2] : (tensor<7x8xf64>) -> tensor<7x1x8xf64>
    %64 = stablehlo.broadcast_in_dim %40, dims = [0, 1, 3] : (tensor<7x2x8xf64>) -> tensor<7x2x1x8xf64>
    %65 = stablehlo.broadcast_in_dim %63, dims = [0, 2, 3] : (tensor<7x1x8xf64>) -> tensor<7x1x1x8xf64>
    %66 = stablehlo.broadcast_in_dim %65, dims = [0, 1, 2, 3] : (tensor<7x1x1x8xf64>) -> tensor<7x2x1x8xf64>
    %67 = stablehlo.multiply %62, %66 : tensor<7x2x1x8xf64>
    %68 = stablehlo.broadcast_in_dim %58, dims = [0, 2, 3] : (tensor<7x1x8xf64>) -> tensor<7x1x1x8xf64>
    %69 = stablehlo.broadcast_in_dim %68, dims = [0, 1, 2, 3] : (tensor<7x1x1x8xf64>) -> tensor<7x2x1x8xf64>
    %70 = stablehlo.multiply %69, %64 : tensor<7x2x1x8xf64>
    %71 = stablehlo.add %67, %70 : tensor<7x2x1x8xf64>
    %72 = stablehlo.add %62, %71 : tensor<7x2x1x8xf64>
    %73 = stablehlo.dot_general %72, %arg1, contracting_dims = [3] x [1] : (tensor<7x2x1x8xf64>, tensor<2x8xf64>) -> tensor<7x2x1x2xf64>
    %74 = stablehlo.slice %73 [0:7, 0:2, 0:1, 0:2] : (tensor<7x2x1x2xf64>) -> tensor<7x2x1x2xf64>
    %75 = stablehlo.reshape %74 : (tensor<7x2x1x2xf64>) -> tensor<7x2x2xf64>
    %76 = stablehlo.transpose %75, dims = [0, 2, 1] : (tensor<7x2x2xf64>) -> tensor<7x2x2xf64>
    %77 = stablehlo.slice %76 [0:7, 0:2, 0:2] : (tensor<7x2x2xf64>) -> tensor<7x2x2xf64>
    %78 = stablehlo.slice %77 [0:7, 0:1, 0:1] : (tensor<7x2x2xf64>) -> tensor<7x1x1xf64>
    %79 = stablehlo.reshape %78 : (tensor<7x1x1xf64>) -> tensor<7xf64>
    %80 = stablehlo.subtract %14, %79 : tensor<7xf64>
    %81 = stablehlo.multiply %80, %80 : tensor<7xf64>
    %82 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f64>) -> tensor<7xf64>
    %83 = stablehlo.multiply %82, %80 : tensor<7xf64>
    %84 = stablehlo.reduce(%81 init: %cst_0) applies stablehlo.add across dimensions = [0] : (tensor<7xf64>, tensor<f64>) -> tensor<f64>
    %85 = stablehlo.divide %84, %cst : tensor<f64>
    %86 = stablehlo.divide %cst_2, %cst : tensor<f64>
    %87 = stablehlo.broadcast_in_dim %86, dims = [] : (tensor<f64>) -> tensor<7xf64>
    %88 = stablehlo.multiply %87, %83 : tensor<7xf64>
    %89 = stablehlo.negate %88 : tensor<7xf64>
    %90 = stablehlo.broadcast_in_dim %89, dims = [0] : (tensor<7xf64>) -> tensor<7x1x1xf64>
    %91 = stablehlo.pad %90, %cst_0, low = [0, 0, 0], high = [0, 1, 1], interior = [0, 0, 0] : (tensor<7x1x1xf64>, tensor<f64>) -> tensor<7x2x2xf64>
    %92 = stablehlo.transpose %91, dims = [0, 2, 1] : (tensor<7x2x2xf64>) -> tensor<7x2x2xf64>
    %93 = stablehlo.reshape %92 : (tensor<7x2x2xf64>) -> tensor<7x2x1x2xf64>
    %94 = stablehlo.dot_general %93, %72, contracting_dims = [0, 1, 2] x [0, 1, 2] : (tensor<7x2x1x2xf64>, tensor<7x2x1x8xf64>) -> tensor<2x8xf64>
    %95 = stablehlo.dot_general %93, %arg1, contracting_dims = [3] x [0] : (tensor<7x2x1x2xf64>, tensor<2x8xf64>) -> tensor<7x2x1x8xf64>
    %96 = stablehlo.broadcast_in_dim %68, dims = [0, 1, 2, 3] : (tensor<7x1x1x8xf64>) -> tensor<7x2x1x8xf64>
    %97 = stablehlo.multiply %96, %95 : tensor<7x2x1x8xf64>
    %98 = stablehlo.multiply %95, %64 : tensor<7x2x1x8xf64>
    %99 = stablehlo.reduce(%98 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<7x2x1x8xf64>, tensor<f64>) -> tensor<7x1x8xf64>
    %100 = stablehlo.reshape %99 : (tensor<7x1x8xf64>) -> tensor<7x1x1x8xf64>
    %101 = stablehlo.reduce(%100 init: %cst_0) applies stablehlo.add across dimensions = [1, 2] : (tensor<7x1x1x8xf64>, tensor<f64>) -> tensor<7x8xf64>
    %102 = stablehlo.broadcast_in_dim %101, dims = [0, 2] : (tensor<7x8xf64>) -> tensor<7x1x8xf64>
    %103 = stablehlo.multiply %62, %95 : tensor<7x2x1x8xf64>
    %104 = stablehlo.reduce(%103 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<7x2x1x8xf64>, tensor<f64>) -> tensor<7x1x8xf64>
    %105 = stablehlo.reshape %104 : (tensor<7x1x8xf64>) -> tensor<7x1x1x8xf64>
    %106 = stablehlo.broadcast_in_dim %65, dims = [0, 1, 2, 3] : (tensor<7x1x1x8xf64>) -> tensor<7x2x1x8xf64>
    %107 = stablehlo.multiply %95, %106 : tensor<7x2x1x8xf64>
    %108 = stablehlo.add %95, %107 : tensor<7x2x1x8xf64>
    %109 = stablehlo.reduce(%105 init: %cst_0) applies stablehlo.add across dimensions = [1, 2] : (tensor<7x1x1x8xf64>, tensor<f64>) -> tensor<7x8xf64>
    %110 = stablehlo.broadcast_in_dim %109, dims = [0, 2] : (tensor<7x8xf64>) -> tensor<7x1x8xf64>
    %111 = stablehlo.reduce(%97 init: %cst_0) applies stablehlo.add across dimensions = [2] : (tensor<7x2x1x8xf64>, tensor<f64>) -> tensor<7x2x8xf64>
    %112 = stablehlo.reduce(%110 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<7x1x8xf64>, tensor<f64>) -> tensor<7x8xf64>
    %113 = stablehlo.broadcast_in_dim %60, dims = [0, 1, 2, 3] : (tensor<1x1x1x8xf64>) -> tensor<7x2x1x8xf64>
    %114 = stablehlo.multiply %113, %108 : tensor<7x2x1x8xf64>
    %115 = stablehlo.multiply %108, %55 : tensor<7x2x1x8xf64>
    %116 = stablehlo.reduce(%115 init: %cst_0) applies stablehlo.add across dimensions = [0, 1] : (tensor<7x2x1x8xf64>, tensor<f64>) -> tensor<1x8xf64>
    %117 = stablehlo.reshape %116 : (tensor<1x8xf64>) -> tensor<1x1x1x8xf64>
    %118 = stablehlo.reduce(%117 init: %cst_0) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<1x1x1x8xf64>, tensor<f64>) -> tensor<8xf64>
    %119 = stablehlo.broadcast_in_dim %118, dims = [2] : (tensor<8xf64>) -> tensor<1x1x8xf64>
    %120 = stablehlo.reduce(%119 init: %cst_0) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x8xf64>, tensor<f64>) -> tensor<8xf64>
    %121 = stablehlo.broadcast_in_dim %120, dims = [1] : (tensor<8xf64>) -> tensor<1x8xf64>
    %122 = stablehlo.broadcast_in_dim %56, dims = [0, 1, 2] : (tensor<1x1x8xf64>) -> tensor<7x1x8xf64>
    %123 = stablehlo.multiply %122, %102 : tensor<7x1x8xf64>
    %124 = stablehlo.multiply %102, %54 : tensor<7x1x8xf64>
    %125 = stablehlo.reduce(%124 init: %cst_0) applies stablehlo.add across dimensions = [0] : (tensor<7x1x8xf64>, tensor<f64>) -> tensor<1x8xf64>
    %126 = stablehlo.reshape %125 : (tensor<1x8xf64>) -> tensor<1x1x8xf64>
    %127 = stablehlo.reduce(%126 init: %cst_0) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x8xf64>, tensor<f64>) -> tensor<8xf64>
    %128 = stablehlo.broadcast_in_dim %127, dims = [1] : (tensor<8xf64>) -> tensor<1x8xf64>
    %129 = stablehlo.add %121, %128 : tensor<1x8xf64>
    %130 = stablehlo.reduce(%114 init: %cst_0) applies stablehlo.add across dimensions = [2] : (tensor<7x2x1x8xf64>, tensor<f64>) -> tensor<7x2x8xf64>
    %131 = stablehlo.reduce(%123 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<7x1x8xf64>, tensor<f64>) -> tensor<7x8xf64>
    %132 = stablehlo.dot_general %129, %52, contracting_dims = [0] x [0] : (tensor<1x8xf64>, tensor<1xf64>) -> tensor<8xf64>
    %133 = stablehlo.negate %130 : tensor<7x2x8xf64>
    %134 = stablehlo.add %111, %133 : tensor<7x2x8xf64>
    %135 = stablehlo.negate %131 : tensor<7x8xf64>
    %136 = stablehlo.add %112, %135 : tensor<7x8xf64>
    %137 = stablehlo.multiply %35, %134 : tensor<7x2x8xf64>
    %138 = stablehlo.reduce(%137 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<7x2x8xf64>, tensor<f64>) -> tensor<7x8xf64>
    %139 = stablehlo.reshape %138 : (tensor<7x8xf64>) -> tensor<7x1x8xf64>
    %140 = stablehlo.broadcast_in_dim %38, dims = [0, 1, 2] : (tensor<7x1x8xf64>) -> tensor<7x2x8xf64>
    %141 = stablehlo.multiply %134, %140 : tensor<7x2x8xf64>
    %142 = stablehlo.reduce(%139 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<7x1x8xf64>, tensor<f64>) -> tensor<7x8xf64>
    %143 = stablehlo.negate %142 : tensor<7x8xf64>
    %144 = stablehlo.add %136, %143 : tensor<7x8xf64>
    %145 = stablehlo.reduce(%141 init: %cst_0) applies stablehlo.add across dimensions = [0] : (tensor<7x2x8xf64>, tensor<f64>) -> tensor<2x8xf64>
    %146 = stablehlo.reshape %145 : (tensor<2x8xf64>) -> tensor<1x2x8xf64>
    %147 = stablehlo.reduce(%146 init: %cst_0) applies stablehlo.add across dimensions = [0] : (tensor<1x2x8xf64>, tensor<f64>) -> tensor<2x8xf64>
    %148 = stablehlo.broadcast_in_dim %29, dims = [0, 1, 2] : (tensor<1x2x8xf64>) -> tensor<7x2x8xf64>
    %149 = stablehlo.multiply %148, %141 : tensor<7x2x8xf64>
    %150 = stablehlo.reduce(%149 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<7x2x8xf64>, tensor<f64>) -> tensor<7x8xf64>
    %151 = stablehlo.reshape %150 : (tensor<7x8xf64>) -> tensor<7x1x8xf64>
    %152 = stablehlo.broadcast_in_dim %28, dims = [0, 1, 2] : (tensor<7x1x8xf64>) -> tensor<7x2x8xf64>
    %153 = stablehlo.multiply %141, %152 : tensor<7x2x8xf64>
    %154 = stablehlo.reduce(%153 init: %cst_0) applies stablehlo.add across dimensions = [0] : (tensor<7x2x8xf64>, tensor<f64>) -> tensor<2x8xf64>
    %155 = stablehlo.reshape %154 : (tensor<2x8xf64>) -> tensor<1x2x8xf64>
    %156 = stablehlo.reduce(%155 init: %cst_0) applies stablehlo.add across dimensions = [0] : (tensor<1x2x8xf64>, tensor<f64>) -> tensor<2x8xf64>
    %157 = stablehlo.add %147, %156 : tensor<2x8xf64>
    %158 = stablehlo.reduce(%151 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<7x1x8xf64>, tensor<f64>) -> tensor<7x8xf64>
    %159 = stablehlo.add %144, %158 : tensor<7x8xf64>
    %160 = stablehlo.multiply %159, %27 : tensor<7x8xf64>
    %161 = stablehlo.multiply %160, %25 : tensor<7x8xf64>
    %162 = stablehlo.add %160, %161 : tensor<7x8xf64>
    %163 = stablehlo.dot_general %157, %22, contracting_dims = [0] x [0] : (tensor<2x8xf64>, tensor<2x2xf64>) -> tensor<8x2xf64>
    %164 = stablehlo.transpose %163, dims = [1, 0] : (tensor<8x2xf64>) -> tensor<2x8xf64>
    %165 = stablehlo.add %94, %164 : tensor<2x8xf64>
    %166 = stablehlo.dot_general %162, %arg0, contracting_dims = [0] x [0] : (tensor<7x8xf64>, tensor<7x2xf64>) -> tensor<8x2xf64>
    %167 = stablehlo.transpose %166, dims = [1, 0] : (tensor<8x2xf64>) -> tensor<2x8xf64>
    %168 = stablehlo.add %165, %167 : tensor<2x8xf64>
    %169 = stablehlo.broadcast_in_dim %88, dims = [0] : (tensor<7xf64>) -> tensor<7x1xf64>
    %170 = stablehlo.pad %169, %cst_0, low = [0, 1], high = [0, 0], interior = [0, 0] : (tensor<7x1xf64>, tensor<f64>) -> tensor<7x2xf64>
    %171 = stablehlo.dot_general %170, %11, contracting_dims = [0] x [0] : (tensor<7x2xf64>, tensor<7x8xf64>) -> tensor<2x8xf64>
    %172 = stablehlo.add %168, %171 : tensor<2x8xf64>
    %173 = stablehlo.dot_general %170, %arg1, contracting_dims = [1] x [0] : (tensor<7x2xf64>, tensor<2x8xf64>) -> tensor<7x8xf64>
    %174 = stablehlo.multiply %9, %173 : tensor<7x8xf64>
    %175 = stablehlo.multiply %173, %1 : tensor<7x8xf64>
    %176 = stablehlo.add %173, %175 : tensor<7x8xf64>
    %177 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<1x8xf64>) -> tensor<7x8xf64>
    %178 = stablehlo.multiply %177, %176 : tensor<7x8xf64>
    %179 = stablehlo.multiply %176, %5 : tensor<7x8xf64>
    %180 = stablehlo.reduce(%179 init: %cst_0) applies stablehlo.add across dimensions = [0] : (tensor<7x8xf64>, tensor<f64>) -> tensor<8xf64>
    %181 = stablehlo.reshape %180 : (tensor<8xf64>) -> tensor<1x8xf64>
    %182 = stablehlo.reduce(%181 init: %cst_0) applies stablehlo.add across dimensions = [0] : (tensor<1x8xf64>, tensor<f64>) -> tensor<8xf64>
    %183 = stablehlo.dot_general %182, %cst_2, contracting_dims = [] x [] : (tensor<8xf64>, tensor<f64>) -> tensor<8xf64>
    %184 = stablehlo.add %132, %183 : tensor<8xf64>
    %185 = stablehlo.negate %178 : tensor<7x8xf64>
    %186 = stablehlo.add %174, %185 : tensor<7x8xf64>
    %187 = stablehlo.multiply %186, %3 : tensor<7x8xf64>
    %188 = stablehlo.multiply %187, %1 : tensor<7x8xf64>
    %189 = stablehlo.add %187, %188 : tensor<7x8xf64>
    %190 = stablehlo.dot_general %189, %arg0, contracting_dims = [0] x [0] : (tensor<7x8xf64>, tensor<7x2xf64>) -> tensor<8x2xf64>
    %191 = stablehlo.transpose %190, dims = [1, 0] : (tensor<8x2xf64>) -> tensor<2x8xf64>
    %192 = stablehlo.add %172, %191 : tensor<2x8xf64>
    return %85, %80, %192, %184 : tensor<f64>, tensor<7xf64>, tensor<2x8xf64>, tensor<8xf64>
  }
}
