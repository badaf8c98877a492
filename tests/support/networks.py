"""A network in an ONNX file, small enough for tests."""

import numpy as np
import pytest

NUMBERS = {"FLOAT": "f4", "FLOAT16": "f2", "DOUBLE": "f8", "INT64": "i8"}
WEIGHTS = np.random.default_rng(0).normal(size=(3 * 4 * 6, 7)).astype(np.float32)


def tiny_network(path, shape=("n", 3, 4, 6), kind="FLOAT", weights=WEIGHTS):
    """Write a network that multiplies the flattened input by ``weights`` and squares the result."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from onnx import helper, numpy_helper

    number = getattr(onnx.TensorProto, kind)
    nodes = [
        helper.make_node("Flatten", ["pixels"], ["flat"]),
        helper.make_node("MatMul", ["flat", "weights"], ["product"]),
        helper.make_node("Mul", ["product", "product"], ["features"]),
        helper.make_node("Neg", ["features"], ["more"]),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("pixels", number, shape)],
        [helper.make_tensor_value_info(name, number, None) for name in ("features", "more")],
        [numpy_helper.from_array(weights.astype(NUMBERS[kind]), "weights")],
    )
    opset = [helper.make_opsetid("", 13)]
    path.write_bytes(helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString())
    return path
