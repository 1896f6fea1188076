"""Rules that make ops of ops: decomposition, reverse mode, Taylor mode. One module per family.

They stand beside the op families instead of in them, so that a reader of an op's meaning is not
slowed down by its derivatives; the coverage matrix (``pirkit-opt --list-ops``) tells of holes.
"""

# pyright: reportUnusedImport=false
import pirkit.dialect.ops  # the ops come first: their rules refer to them
import pirkit.dialect.structure  # noqa: F401
from pirkit.dialect.rules import (
    activation as activation,
)
from pirkit.dialect.rules import (
    adaptive as adaptive,
)
from pirkit.dialect.rules import (
    attention as attention,
)
from pirkit.dialect.rules import (
    complexes as complexes,
)
from pirkit.dialect.rules import (
    convolution as convolution,
)
from pirkit.dialect.rules import (
    counting as counting,
)
from pirkit.dialect.rules import (
    creation as creation,
)
from pirkit.dialect.rules import (
    ctc as ctc,
)
from pirkit.dialect.rules import (
    dropout as dropout,
)
from pirkit.dialect.rules import (
    eigen as eigen,
)
from pirkit.dialect.rules import (
    elementwise as elementwise,
)
from pirkit.dialect.rules import (
    factorization as factorization,
)
from pirkit.dialect.rules import (
    fft as fft,
)
from pirkit.dialect.rules import (
    graph as graph,
)
from pirkit.dialect.rules import (
    indexing as indexing,
)
from pirkit.dialect.rules import (
    interp as interp,
)
from pirkit.dialect.rules import (
    linalg as linalg,
)
from pirkit.dialect.rules import (
    loss as loss,
)
from pirkit.dialect.rules import (
    matrices as matrices,
)
from pirkit.dialect.rules import (
    movement as movement,
)
from pirkit.dialect.rules import (
    normalization as normalization,
)
from pirkit.dialect.rules import (
    norms as norms,
)
from pirkit.dialect.rules import (
    optimizer as optimizer,
)
from pirkit.dialect.rules import (
    padding as padding,
)
from pirkit.dialect.rules import (
    paddle_gradients as paddle_gradients,
)
from pirkit.dialect.rules import (
    pairs as pairs,
)
from pirkit.dialect.rules import (
    pooling as pooling,
)
from pirkit.dialect.rules import (
    products as products,
)
from pirkit.dialect.rules import (
    random as random,
)
from pirkit.dialect.rules import (
    rearranging as rearranging,
)
from pirkit.dialect.rules import (
    recurrent as recurrent,
)
from pirkit.dialect.rules import (
    reduction as reduction,
)
from pirkit.dialect.rules import (
    roi_pool as roi_pool,
)
from pirkit.dialect.rules import (
    sampling as sampling,
)
from pirkit.dialect.rules import (
    scan as scan,
)
from pirkit.dialect.rules import (
    sequence as sequence,
)
from pirkit.dialect.rules import (
    series as series,
)
from pirkit.dialect.rules import (
    series_arrays as series_arrays,
)
from pirkit.dialect.rules import (
    series_functions as series_functions,
)
from pirkit.dialect.rules import (
    series_matrices as series_matrices,
)
from pirkit.dialect.rules import (
    series_slopes as series_slopes,
)
from pirkit.dialect.rules import (
    sets as sets,
)
from pirkit.dialect.rules import (
    signal as signal,
)
from pirkit.dialect.rules import (
    softmax as softmax,
)
from pirkit.dialect.rules import (
    solving as solving,
)
from pirkit.dialect.rules import (
    sorting as sorting,
)
from pirkit.dialect.rules import (
    special as special,
)
from pirkit.dialect.rules import (
    unfold as unfold,
)
from pirkit.dialect.rules import (
    views as views,
)
from pirkit.dialect.rules import (
    writing as writing,
)
from pirkit.dialect.rules import (
    yolo_loss as yolo_loss,
)
