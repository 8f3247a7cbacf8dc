from engine.anatomy import anatomy_of
from engine.plan import make_plan
from engine.preflight import preflight
from engine.targets import Model, resolve
from tests.engine.test_anatomy import BLOOM_1B7
from tests.engine.test_targets import PASS_1

ANATOMY = anatomy_of(BLOOM_1B7, "bloom-1b7")


def estimate(expression: str, dtype: str = "bfloat16", **values):
    targets = resolve(expression, Model(24, 16))
    return preflight(ANATOMY, targets, make_plan({"targets": expression, **values}), dtype)


def test_the_first_pass_on_bloom_1b7():
    found = estimate(PASS_1)
    assert (found.targets, found.in_band_frozen, found.outside) == (108, 18, 258)
    assert (found.zone_layers, found.zone_heads) == ((5, 22), (9, 15))
    assert (found.trained_parameters, found.touched_tensor_parameters) == (113_287_680, 302_100_480)
    assert found.total_parameters == 1_722_408_960


def test_fewer_parts_train_less():
    assert estimate("L5-H9", parts="qk").trained_parameters == 1_048_960 - 128 * 2048 - 128


def test_memory_holds_the_weights_and_for_each_trained_parameter_its_state():
    assert estimate(PASS_1).memory_bytes > 2 * 1_722_408_960
    # in fp32: master, gradient, two moments
    more = estimate("L20 x H9-15").memory_bytes - estimate("L20-H9").memory_bytes
    assert more >= 6 * 1_048_960 * 16


def test_memory_grows_with_what_is_asked_for():
    base = estimate("L20-H9").memory_bytes
    assert estimate("L5-H9").memory_bytes > base  # gradients reach further down
    assert estimate("L20 x H9-15").memory_bytes > base
    assert estimate("L20-H9", micro_batch=4).memory_bytes > base
    assert estimate("L20-H9", length=1024).memory_bytes > base
    assert estimate("L20-H9", dtype="float32").memory_bytes > base
    assert estimate("L20-H9", accumulate=32).memory_bytes == base


def test_the_disk_holds_patch_and_state_twice():
    trained = estimate("L20-H9").trained_parameters
    # patch: new and old values in two bytes each; state: master and two moments in four, the best in two
    assert estimate("L20-H9").disk_bytes >= 2 * (4 * trained + 14 * trained)
