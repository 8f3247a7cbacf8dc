import psutil

from engine.anatomy import anatomy_of
from engine.plan import make_plan
from engine.preflight import free_ram, memory_bytes, preflight, smaller, what_fits
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


def test_a_patch_of_the_papers_first_pass_is_an_eighth_of_the_checkpoint():
    found = estimate(PASS_1)
    one_side = 2 * found.trained_parameters / (2 * found.total_parameters)  # in bf16, as the checkpoint
    assert round(100 * one_side, 1) == 6.6
    assert round(200 * one_side) == 13  # new values and originals


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


def test_texts_that_are_watched_are_evaluated_in_samples_of_their_own():
    small = anatomy_of({**BLOOM_1B7, "vocab_size": 1000}, "x")  # so that many samples fit at once

    def needed(**values):
        plan = make_plan({"targets": "all", "length": 64, **values})
        return memory_bytes(small, resolve("L20-H9", Model(24, 16)), plan, "float32", 64)

    few, many = needed(heldout_samples=8), needed(heldout_samples=32)
    assert few < many == needed(heldout_samples=8, watch=["x.txt"])


def test_the_disk_holds_patch_and_state_twice():
    trained = estimate("L20-H9").trained_parameters
    # patch: new and old values in two bytes each; state: master and two moments in four, the best in two
    assert estimate("L20-H9").disk_bytes >= 2 * (4 * trained + 14 * trained)


def test_smaller_micro_batches_keep_the_samples_per_step():
    plan = make_plan({"targets": "all", "micro_batch": 6, "accumulate": 2})
    found = list(smaller(plan))
    assert found[:4] == [{"micro_batch": n, "accumulate": 12 // n} for n in (4, 3, 2, 1)]
    assert found[4] == {"checkpointing": True}
    assert found[-1] == {"micro_batch": 1, "accumulate": 12, "checkpointing": True}
    assert list(smaller(make_plan({"targets": "all", "checkpointing": True}))) == []


def test_what_fits_is_the_gentlest_change_that_does():
    targets = resolve(PASS_1, Model(24, 16))
    plan = make_plan({"targets": PASS_1, "micro_batch": 8, "accumulate": 1})

    def needs(**values):
        return memory_bytes(ANATOMY, targets, plan.model_copy(update=values), "bfloat16")

    assert needs() > needs(micro_batch=4) > needs(micro_batch=2) > needs(micro_batch=1)
    assert needs(checkpointing=True) < needs()
    room = needs(micro_batch=2)
    assert what_fits(ANATOMY, targets, plan, "bfloat16", 2048, room) == {"micro_batch": 2, "accumulate": 4}
    assert what_fits(ANATOMY, targets, plan, "bfloat16", 2048, 10**9) == {}


def test_free_memory_is_what_the_machine_has_at_most():
    assert 0 < free_ram() <= psutil.virtual_memory().total
