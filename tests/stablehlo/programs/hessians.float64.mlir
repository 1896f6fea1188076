module @jit_hessians attributes {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x5xf64>) -> (tensor<4x5x5xf64> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f64>
    %cst_0 = stablehlo.constant dense<3.000000e+00> : tensor<f64>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %c = stablehlo.constant dense<0> : tensor<i64>
    %0 = stablehlo.iota dim = 0 : tensor<5x5xi64>
    %1 = stablehlo.iota dim = 1 : tensor<5x5xi64>
    %2 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i64>) -> tensor<5x5xi64>
    %3 = stablehlo.add %0, %2 : tensor<5x5xi64>
    %4 = stablehlo.compare EQ, %3, %1, SIGNED : (tensor<5x5xi64>, tensor<5x5xi64>) -> tensor<5x5xi1>
    %5 = stablehlo.convert %4 : (tensor<5x5xi1>) -> tensor<5x5xf64>
    %6 = stablehlo.slice %5 [0:5, 0:5] : (tensor<5x5xf64>) -> tensor<5x5xf64>
    %7 = stablehlo.convert %6 : tensor<5x5xf64>
    %8 = stablehlo.sine %arg0 : tensor<4x5xf64>
    %9 = stablehlo.cosine %arg0 : tensor<4x5xf64>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 2] : (tensor<4x5xf64>) -> tensor<4x1x5xf64>
    %11 = stablehlo.broadcast_in_dim %7, dims = [1, 2] : (tensor<5x5xf64>) -> tensor<1x5x5xf64>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1, 2] : (tensor<1x5x5xf64>) -> tensor<4x5x5xf64>
    %13 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<4x1x5xf64>) -> tensor<4x5x5xf64>
    %14 = stablehlo.multiply %12, %13 : tensor<4x5x5xf64>
    %15 = stablehlo.cosine %arg0 : tensor<4x5xf64>
    %16 = stablehlo.sine %arg0 : tensor<4x5xf64>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0, 2] : (tensor<4x5xf64>) -> tensor<4x1x5xf64>
    %18 = stablehlo.broadcast_in_dim %7, dims = [1, 2] : (tensor<5x5xf64>) -> tensor<1x5x5xf64>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2] : (tensor<1x5x5xf64>) -> tensor<4x5x5xf64>
    %20 = stablehlo.broadcast_in_dim %17, dims = [0, 1, 2] : (tensor<4x1x5xf64>) -> tensor<4x5x5xf64>
    %21 = stablehlo.multiply %19, %20 : tensor<4x5x5xf64>
    %22 = stablehlo.negate %21 : tensor<4x5x5xf64>
    %23 = stablehlo.slice %8 [0:4, 0:3] : (tensor<4x5xf64>) -> tensor<4x3xf64>
    %24 = stablehlo.slice %14 [0:4, 0:5, 0:3] : (tensor<4x5x5xf64>) -> tensor<4x5x3xf64>
    %25 = stablehlo.slice %8 [0:4, 3:5] : (tensor<4x5xf64>) -> tensor<4x2xf64>
    %26 = stablehlo.slice %14 [0:4, 0:5, 3:5] : (tensor<4x5x5xf64>) -> tensor<4x5x2xf64>
    %27 = stablehlo.pad %25, %cst_2, low = [0, 0], high = [0, 1], interior = [0, 0] : (tensor<4x2xf64>, tensor<f64>) -> tensor<4x3xf64>
    %28 = stablehlo.pad %26, %cst_1, low = [0, 0, 0], high = [0, 0, 1], interior = [0, 0, 0] : (tensor<4x5x2xf64>, tensor<f64>) -> tensor<4x5x3xf64>
    %29 = stablehlo.multiply %23, %27 : tensor<4x3xf64>
    %30 = stablehlo.broadcast_in_dim %27, dims = [0, 2] : (tensor<4x3xf64>) -> tensor<4x1x3xf64>
    %31 = stablehlo.broadcast_in_dim %30, dims = [0, 1, 2] : (tensor<4x1x3xf64>) -> tensor<4x5x3xf64>
    %32 = stablehlo.multiply %24, %31 : tensor<4x5x3xf64>
    %33 = stablehlo.broadcast_in_dim %23, dims = [0, 2] : (tensor<4x3xf64>) -> tensor<4x1x3xf64>
    %34 = stablehlo.broadcast_in_dim %33, dims = [0, 1, 2] : (tensor<4x1x3xf64>) -> tensor<4x5x3xf64>
    %35 = stablehlo.multiply %34, %28 : tensor<4x5x3xf64>
    %36 = stablehlo.add %32, %35 : tensor<4x5x3xf64>
    %37 = stablehlo.slice %29 [0:4, 0:2] : (tensor<4x3xf64>) -> tensor<4x2xf64>
    %38 = stablehlo.slice %36 [0:4, 0:5, 0:2] : (tensor<4x5x3xf64>) -> tensor<4x5x2xf64>
    %39 = stablehlo.slice %29 [0:4, 2:3] : (tensor<4x3xf64>) -> tensor<4x1xf64>
    %40 = stablehlo.slice %36 [0:4, 0:5, 2:3] : (tensor<4x5x3xf64>) -> tensor<4x5x1xf64>
    %41 = stablehlo.pad %39, %cst_2, low = [0, 0], high = [0, 1], interior = [0, 0] : (tensor<4x1xf64>, tensor<f64>) -> tensor<4x2xf64>
    %42 = stablehlo.pad %40, %cst_1, low = [0, 0, 0], high = [0, 0, 1], interior = [0, 0, 0] : (tensor<4x5x1xf64>, tensor<f64>) -> tensor<4x5x2xf64>
    %43 = stablehlo.multiply %37, %41 : tensor<4x2xf64>
    %44 = stablehlo.broadcast_in_dim %41, dims = [0, 2] : (tensor<4x2xf64>) -> tensor<4x1x2xf64>
    %45 = stablehlo.broadcast_in_dim %44, dims = [0, 1, 2] : (tensor<4x1x2xf64>) -> tensor<4x5x2xf64>
    %46 = stablehlo.multiply %38, %45 : tensor<4x5x2xf64>
    %47 = stablehlo.broadcast_in_dim %37, dims = [0, 2] : (tensor<4x2xf64>) -> tensor<4x1x2xf64>
    %48 = stablehlo.broadcast_in_dim %47, dims = [0, 1, 2] : (tensor<4x1x2xf64>) -> tensor<4x5x2xf64>
    %49 = stablehlo.multiply %48, %42 : tensor<4x5x2xf64>
    %50 = stablehlo.add %46, %49 : tensor<4x5x2xf64>
    %51 = stablehlo.slice %43 [0:4, 0:1] : (tensor<4x2xf64>) -> tensor<4x1xf64>
    %52 = stablehlo.slice %50 [0:4, 0:5, 0:1] : (tensor<4x5x2xf64>) -> tensor<4x5x1xf64>
    %53 = stablehlo.slice %43 [0:4, 1:2] : (tensor<4x2xf64>) -> tensor<4x1xf64>
    %54 = stablehlo.slice %50 [0:4, 0:5, 1:2] : (tensor<4x5x2xf64>) -> tensor<4x5x1xf64>
    %55 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<4x5xf64>
    %56 = stablehlo.multiply %55, %arg0 : tensor<4x5xf64>
    %57 = stablehlo.broadcast_in_dim %56, dims = [0, 2] : (tensor<4x5xf64>) -> tensor<4x1x5xf64>
    %58 = stablehlo.broadcast_in_dim %7, dims = [1, 2] : (tensor<5x5xf64>) -> tensor<1x5x5xf64>
    %59 = stablehlo.broadcast_in_dim %58, dims = [0, 1, 2] : (tensor<1x5x5xf64>) -> tensor<4x5x5xf64>
    %60 = stablehlo.broadcast_in_dim %57, dims = [0, 1, 2] : (tensor<4x1x5xf64>) -> tensor<4x5x5xf64>
    %61 = stablehlo.multiply %59, %60 : tensor<4x5x5xf64>
    %62 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f64>) -> tensor<4x5x5xf64>
    %63 = stablehlo.multiply %62, %61 : tensor<4x5x5xf64>
    %64 = stablehlo.iota dim = 0 : tensor<1x1xi64>
    %65 = stablehlo.iota dim = 1 : tensor<1x1xi64>
    %66 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i64>) -> tensor<1x1xi64>
    %67 = stablehlo.add %64, %66 : tensor<1x1xi64>
    %68 = stablehlo.compare EQ, %67, %65, SIGNED : (tensor<1x1xi64>, tensor<1x1xi64>) -> tensor<1x1xi1>
    %69 = stablehlo.convert %68 : (tensor<1x1xi1>) -> tensor<1x1xf64>
    %70 = stablehlo.slice %69 [0:1, 0:1] : (tensor<1x1xf64>) -> tensor<1x1xf64>
    %71 = stablehlo.reshape %70 : (tensor<1x1xf64>) -> tensor<1xf64>
    %72 = stablehlo.convert %71 : tensor<1xf64>
    %73 = stablehlo.broadcast_in_dim %72, dims = [0] : (tensor<1xf64>) -> tensor<1x5xf64>
    %74 = stablehlo.broadcast_in_dim %63, dims = [0, 1, 3] : (tensor<4x5x5xf64>) -> tensor<4x5x1x5xf64>
    %75 = stablehlo.broadcast_in_dim %73, dims = [1, 2] : (tensor<1x5xf64>) -> tensor<1x1x5xf64>
    %76 = stablehlo.broadcast_in_dim %75, dims = [1, 2, 3] : (tensor<1x1x5xf64>) -> tensor<1x1x1x5xf64>
    %77 = stablehlo.broadcast_in_dim %76, dims = [0, 1, 2, 3] : (tensor<1x1x1x5xf64>) -> tensor<4x5x1x5xf64>
    %78 = stablehlo.multiply %77, %74 : tensor<4x5x1x5xf64>
    %79 = stablehlo.broadcast_in_dim %72, dims = [0] : (tensor<1xf64>) -> tensor<1x1xf64>
    %80 = stablehlo.broadcast_in_dim %51, dims = [0, 2] : (tensor<4x1xf64>) -> tensor<4x1x1xf64>
    %81 = stablehlo.broadcast_in_dim %52, dims = [0, 1, 3] : (tensor<4x5x1xf64>) -> tensor<4x5x1x1xf64>
    %82 = stablehlo.broadcast_in_dim %79, dims = [1, 2] : (tensor<1x1xf64>) -> tensor<1x1x1xf64>
    %83 = stablehlo.broadcast_in_dim %82, dims = [0, 1, 2] : (tensor<1x1x1xf64>) -> tensor<4x1x1xf64>
    %84 = stablehlo.multiply %80, %83 : tensor<4x1x1xf64>
    %85 = stablehlo.broadcast_in_dim %79, dims = [1, 2] : (tensor<1x1xf64>) -> tensor<1x1x1xf64>
    %86 = stablehlo.broadcast_in_dim %85, dims = [1, 2, 3] : (tensor<1x1x1xf64>) -> tensor<1x1x1x1xf64>
    %87 = stablehlo.broadcast_in_dim %86, dims = [0, 1, 2, 3] : (tensor<1x1x1x1xf64>) -> tensor<4x5x1x1xf64>
    %88 = stablehlo.multiply %81, %87 : tensor<4x5x1x1xf64>
    %89 = stablehlo.broadcast_in_dim %53, dims = [0, 2] : (tensor<4x1xf64>) -> tensor<4x1x1xf64>
    %90 = stablehlo.broadcast_in_dim %54, dims = [0, 1, 3] : (tensor<4x5x1xf64>) -> tensor<4x5x1x1xf64>
    %91 = stablehlo.broadcast_in_dim %79, dims = [1, 2] : (tensor<1x1xf64>) -> tensor<1x1x1xf64>
    %92 = stablehlo.broadcast_in_dim %91, dims = [0, 1, 2] : (tensor<1x1x1xf64>) -> tensor<4x1x1xf64>
    %93 = stablehlo.multiply %92, %89 : tensor<4x1x1xf64>
    %94 = stablehlo.broadcast_in_dim %79, dims = [1, 2] : (tensor<1x1xf64>) -> tensor<1x1x1xf64>
    %95 = stablehlo.broadcast_in_dim %94, dims = [1, 2, 3] : (tensor<1x1x1xf64>) -> tensor<1x1x1x1xf64>
    %96 = stablehlo.broadcast_in_dim %95, dims = [0, 1, 2, 3] : (tensor<1x1x1x1xf64>) -> tensor<4x5x1x1xf64>
    %97 = stablehlo.multiply %96, %90 : tensor<4x5x1x1xf64>
    %98 = stablehlo.pad %84, %cst_1, low = [0, 0, 1], high = [0, 0, 0], interior = [0, 0, 0] : (tensor<4x1x1xf64>, tensor<f64>) -> tensor<4x1x2xf64>
    %99 = stablehlo.pad %88, %cst_1, low = [0, 0, 0, 1], high = [0, 0, 0, 0], interior = [0, 0, 0, 0] : (tensor<4x5x1x1xf64>, tensor<f64>) -> tensor<4x5x1x2xf64>
    %100 = stablehlo.pad %93, %cst_1, low = [0, 0, 0], high = [0, 0, 1], interior = [0, 0, 0] : (tensor<4x1x1xf64>, tensor<f64>) -> tensor<4x1x2xf64>
    %101 = stablehlo.pad %97, %cst_1, low = [0, 0, 0, 0], high = [0, 0, 0, 1], interior = [0, 0, 0, 0] : (tensor<4x5x1x1xf64>, tensor<f64>) -> tensor<4x5x1x2xf64>
    %102 = stablehlo.add %98, %100 : tensor<4x1x2xf64>
    %103 = stablehlo.add %99, %101 : tensor<4x5x1x2xf64>
    %104 = stablehlo.broadcast_in_dim %37, dims = [0, 2] : (tensor<4x2xf64>) -> tensor<4x1x2xf64>
    %105 = stablehlo.broadcast_in_dim %38, dims = [0, 1, 3] : (tensor<4x5x2xf64>) -> tensor<4x5x1x2xf64>
    %106 = stablehlo.multiply %104, %102 : tensor<4x1x2xf64>
    %107 = stablehlo.broadcast_in_dim %102, dims = [0, 2, 3] : (tensor<4x1x2xf64>) -> tensor<4x1x1x2xf64>
    %108 = stablehlo.broadcast_in_dim %107, dims = [0, 1, 2, 3] : (tensor<4x1x1x2xf64>) -> tensor<4x5x1x2xf64>
    %109 = stablehlo.multiply %105, %108 : tensor<4x5x1x2xf64>
    %110 = stablehlo.broadcast_in_dim %104, dims = [0, 2, 3] : (tensor<4x1x2xf64>) -> tensor<4x1x1x2xf64>
    %111 = stablehlo.broadcast_in_dim %110, dims = [0, 1, 2, 3] : (tensor<4x1x1x2xf64>) -> tensor<4x5x1x2xf64>
    %112 = stablehlo.multiply %111, %103 : tensor<4x5x1x2xf64>
    %113 = stablehlo.add %109, %112 : tensor<4x5x1x2xf64>
    %114 = stablehlo.broadcast_in_dim %41, dims = [0, 2] : (tensor<4x2xf64>) -> tensor<4x1x2xf64>
    %115 = stablehlo.broadcast_in_dim %42, dims = [0, 1, 3] : (tensor<4x5x2xf64>) -> tensor<4x5x1x2xf64>
    %116 = stablehlo.multiply %102, %114 : tensor<4x1x2xf64>
    %117 = stablehlo.broadcast_in_dim %114, dims = [0, 2, 3] : (tensor<4x1x2xf64>) -> tensor<4x1x1x2xf64>
    %118 = stablehlo.broadcast_in_dim %117, dims = [0, 1, 2, 3] : (tensor<4x1x1x2xf64>) -> tensor<4x5x1x2xf64>
    %119 = stablehlo.multiply %103, %118 : tensor<4x5x1x2xf64>
    %120 = stablehlo.broadcast_in_dim %102, dims = [0, 2, 3] : (tensor<4x1x2xf64>) -> tensor<4x1x1x2xf64>
    %121 = stablehlo.broadcast_in_dim %120, dims = [0, 1, 2, 3] : (tensor<4x1x1x2xf64>) -> tensor<4x5x1x2xf64>
    %122 = stablehlo.multiply %121, %115 : tensor<4x5x1x2xf64>
    %123 = stablehlo.add %119, %122 : tensor<4x5x1x2xf64>
    %124 = stablehlo.pad %106, %cst_1, low = [0, 0, 0], high = [0, 0, -1], interior = [0, 0, 0] : (tensor<4x1x2xf64>, tensor<f64>) -> tensor<4x1x1xf64>
    %125 = stablehlo.pad %113, %cst_1, low = [0, 0, 0, 0], high = [0, 0, 0, -1], interior = [0, 0, 0, 0] : (tensor<4x5x1x2xf64>, tensor<f64>) -> tensor<4x5x1x1xf64>
    %126 = stablehlo.slice %124 [0:4, 0:1, 0:1] : (tensor<4x1x1xf64>) -> tensor<4x1x1xf64>
    %127 = stablehlo.slice %125 [0:4, 0:5, 0:1, 0:1] : (tensor<4x5x1x1xf64>) -> tensor<4x5x1x1xf64>
    %128 = stablehlo.pad %126, %cst_1, low = [0, 0, 2], high = [0, 0, 0], interior = [0, 0, 0] : (tensor<4x1x1xf64>, tensor<f64>) -> tensor<4x1x3xf64>
    %129 = stablehlo.pad %127, %cst_1, low = [0, 0, 0, 2], high = [0, 0, 0, 0], interior = [0, 0, 0, 0] : (tensor<4x5x1x1xf64>, tensor<f64>) -> tensor<4x5x1x3xf64>
    %130 = stablehlo.pad %116, %cst_1, low = [0, 0, 0], high = [0, 0, 1], interior = [0, 0, 0] : (tensor<4x1x2xf64>, tensor<f64>) -> tensor<4x1x3xf64>
    %131 = stablehlo.pad %123, %cst_1, low = [0, 0, 0, 0], high = [0, 0, 0, 1], interior = [0, 0, 0, 0] : (tensor<4x5x1x2xf64>, tensor<f64>) -> tensor<4x5x1x3xf64>
    %132 = stablehlo.add %128, %130 : tensor<4x1x3xf64>
    %133 = stablehlo.add %129, %131 : tensor<4x5x1x3xf64>
    %134 = stablehlo.broadcast_in_dim %23, dims = [0, 2] : (tensor<4x3xf64>) -> tensor<4x1x3xf64>
    %135 = stablehlo.broadcast_in_dim %24, dims = [0, 1, 3] : (tensor<4x5x3xf64>) -> tensor<4x5x1x3xf64>
    %136 = stablehlo.multiply %134, %132 : tensor<4x1x3xf64>
    %137 = stablehlo.broadcast_in_dim %132, dims = [0, 2, 3] : (tensor<4x1x3xf64>) -> tensor<4x1x1x3xf64>
    %138 = stablehlo.broadcast_in_dim %137, dims = [0, 1, 2, 3] : (tensor<4x1x1x3xf64>) -> tensor<4x5x1x3xf64>
    %139 = stablehlo.multiply %135, %138 : tensor<4x5x1x3xf64>
    %140 = stablehlo.broadcast_in_dim %134, dims = [0, 2, 3] : (tensor<4x1x3xf64>) -> tensor<4x1x1x3xf64>
    %141 = stablehlo.broadcast_in_dim %140, dims = [0, 1, 2, 3] : (tensor<4x1x1x3xf64>) -> tensor<4x5x1x3xf64>
    %142 = stablehlo.multiply %141, %133 : tensor<4x5x1x3xf64>
    %143 = stablehlo.add %139, %142 : tensor<4x5x1x3xf64>
    %144 = stablehlo.broadcast_in_dim %27, dims = [0, 2] : (tensor<4x3xf64>) -> tensor<4x1x3xf64>
    %145 = stablehlo.broadcast_in_dim %28, dims = [0, 1, 3] : (tensor<4x5x3xf64>) -> tensor<4x5x1x3xf64>
    %146 = stablehlo.multiply %132, %144 : tensor<4x1x3xf64>
    %147 = stablehlo.broadcast_in_dim %144, dims = [0, 2, 3] : (tensor<4x1x3xf64>) -> tensor<4x1x1x3xf64>
    %148 = stablehlo.broadcast_in_dim %147, dims = [0, 1, 2, 3] : (tensor<4x1x1x3xf64>) -> tensor<4x5x1x3xf64>
    %149 = stablehlo.multiply %133, %148 : tensor<4x5x1x3xf64>
    %150 = stablehlo.broadcast_in_dim %132, dims = [0, 2, 3] : (tensor<4x1x3xf64>) -> tensor<4x1x1x3xf64>
    %151 = stablehlo.broadcast_in_dim %150, dims = [0, 1, 2, 3] : (tensor<4x1x1x3xf64>) -> tensor<4x5x1x3xf64>
    %152 = stablehlo.multiply %151, %145 : tensor<4x5x1x3xf64>
    %153 = stablehlo.add %149, %152 : tensor<4x5x1x3xf64>
    %154 = stablehlo.pad %136, %cst_1, low = [0, 0, 0], high = [0, 0, -1], interior = [0, 0, 0] : (tensor<4x1x3xf64>, tensor<f64>) -> tensor<4x1x2xf64>
    %155 = stablehlo.pad %143, %cst_1, low = [0, 0, 0, 0], high = [0, 0, 0, -1], interior = [0, 0, 0, 0] : (tensor<4x5x1x3xf64>, tensor<f64>) -> tensor<4x5x1x2xf64>
    %156 = stablehlo.slice %154 [0:4, 0:1, 0:2] : (tensor<4x1x2xf64>) -> tensor<4x1x2xf64>
    %157 = stablehlo.slice %155 [0:4, 0:5, 0:1, 0:2] : (tensor<4x5x1x2xf64>) -> tensor<4x5x1x2xf64>
    %158 = stablehlo.pad %156, %cst_1, low = [0, 0, 3], high = [0, 0, 0], interior = [0, 0, 0] : (tensor<4x1x2xf64>, tensor<f64>) -> tensor<4x1x5xf64>
    %159 = stablehlo.pad %157, %cst_1, low = [0, 0, 0, 3], high = [0, 0, 0, 0], interior = [0, 0, 0, 0] : (tensor<4x5x1x2xf64>, tensor<f64>) -> tensor<4x5x1x5xf64>
    %160 = stablehlo.pad %146, %cst_1, low = [0, 0, 0], high = [0, 0, 2], interior = [0, 0, 0] : (tensor<4x1x3xf64>, tensor<f64>) -> tensor<4x1x5xf64>
    %161 = stablehlo.pad %153, %cst_1, low = [0, 0, 0, 0], high = [0, 0, 0, 2], interior = [0, 0, 0, 0] : (tensor<4x5x1x3xf64>, tensor<f64>) -> tensor<4x5x1x5xf64>
    %162 = stablehlo.add %158, %160 : tensor<4x1x5xf64>
    %163 = stablehlo.add %159, %161 : tensor<4x5x1x5xf64>
    %164 = stablehlo.broadcast_in_dim %15, dims = [0, 2] : (tensor<4x5xf64>) -> tensor<4x1x5xf64>
    %165 = stablehlo.broadcast_in_dim %22, dims = [0, 1, 3] : (tensor<4x5x5xf64>) -> tensor<4x5x1x5xf64>
    %166 = stablehlo.broadcast_in_dim %164, dims = [0, 2, 3] : (tensor<4x1x5xf64>) -> tensor<4x1x1x5xf64>
    %167 = stablehlo.broadcast_in_dim %166, dims = [0, 1, 2, 3] : (tensor<4x1x1x5xf64>) -> tensor<4x5x1x5xf64>
    %168 = stablehlo.multiply %163, %167 : tensor<4x5x1x5xf64>
    %169 = stablehlo.broadcast_in_dim %162, dims = [0, 2, 3] : (tensor<4x1x5xf64>) -> tensor<4x1x1x5xf64>
    %170 = stablehlo.broadcast_in_dim %169, dims = [0, 1, 2, 3] : (tensor<4x1x1x5xf64>) -> tensor<4x5x1x5xf64>
    %171 = stablehlo.multiply %170, %165 : tensor<4x5x1x5xf64>
    %172 = stablehlo.add %168, %171 : tensor<4x5x1x5xf64>
    %173 = stablehlo.add %78, %172 : tensor<4x5x1x5xf64>
    %174 = stablehlo.slice %173 [0:4, 0:5, 0:1, 0:5] : (tensor<4x5x1x5xf64>) -> tensor<4x5x1x5xf64>
    %175 = stablehlo.reshape %174 : (tensor<4x5x1x5xf64>) -> tensor<4x5x5xf64>
    %176 = stablehlo.transpose %175, dims = [0, 2, 1] : (tensor<4x5x5xf64>) -> tensor<4x5x5xf64>
    %177 = stablehlo.slice %176 [0:4, 0:5, 0:5] : (tensor<4x5x5xf64>) -> tensor<4x5x5xf64>
    return %177 : tensor<4x5x5xf64>
  }
}
