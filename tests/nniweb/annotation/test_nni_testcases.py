"""The inputs of NNI's own test of annotations and of its examples, in other words: what NNI's tool makes of them."""

import json

import pytest

from nniweb.annotation.reading_process import AnnotationsInvalid, rewrite_files
from tests.nniweb.annotation.annotated_code import run

#: ``dir/simple.py``
SIMPLE = '''\
def max_pool(k):
    return "max", k
def avg_pool(*k):
    return "avg", k
def max_poo(k):
    return "poo", k
h_conv1=1; h_conv2=2; h_conv3=3
"""@nni.variable(nni.choice(2,3,5,7),name=conv_size)"""
conv_size = 5
"""@nni.variable(nni.choice('2',3,5*6,{1:2, '3':4},[1,2,3]),name=abc)"""
abc = 5
"""@nni.function_choice(max_pool(h_conv1), avg_pool(h_conv2,h_conv3), name=max_pool)"""
h_pool1 = max_pool(h_conv1)
"""@nni.function_choice(max_poo(h_conv1), 2 * 3 + 4, lambda x: 1+x, name=max_poo)"""
h_pool2 = max_poo(h_conv1)
test_acc=1
\'\'\'@nni.report_intermediate_result(test_acc)\'\'\'
test_acc=2
\'\'\'@nni.report_final_result(test_acc)\'\'\'
'''
#: ``mnist.py``, and examples/trials/mnist-annotation: a network whose parts are called by attributes.
MNIST = '''\
# -*- encoding:utf8 -*-

"""A network.
"""

from __future__ import absolute_import
from __future__ import division

class Nn:
    def relu(self, x): return "relu", x
    def tanh(self, x): return "tanh", x
class Tf:
    nn = Nn()
tf = Tf()

class Network(object):
    def __init__(self, conv_size=5, hidden_size=1024, learning_rate=0.0001):
        \'\'\'@nni.variable(nni.choice(2,3,5,7),name=self.conv_size)\'\'\'
        self.conv_size = conv_size
        """@nni.variable(nni.choice(124, 512, 1024), name=self.hidden_size)"""
        self.hidden_size = hidden_size
        """@nni.variable(nni.loguniform(0.0001, 0.1), name=self.learning_rate)"""
        self.learning_rate = learning_rate
        self.pool_size = 2

    def build(self, x, b):
        """@nni.function_choice(tf.nn.relu(x + b),tf.nn.tanh(x + b),name=tf.nn.relu)"""
        h = tf.nn.relu(x + b)
        """@nni.function_choice(max_pool(h, self.pool_size),avg_pool(h, self.pool_size),name=max_pool)"""
        pooled = max_pool(h, self.pool_size)
        return pooled

def max_pool(x, pool_size):
    """max_pool downsamples."""
    return "max", x, pool_size
def avg_pool(x, pool_size):
    return "avg", x, pool_size

def main():
    network = Network()
    """@nni.variable(nni.choice(16, 32), name=batch_size)"""
    batch_size = 8
    for i in range(2):
        """@nni.variable(nni.choice(0.5, 0.9), name=dropout_rate)"""
        dropout_rate = 0.1
        test_acc = i + dropout_rate
        """@nni.report_intermediate_result(test_acc)"""
    """@nni.report_final_result(test_acc)"""
    return network, batch_size

if __name__ == '__main__':
    \'\'\'@nni.get_next_parameter()\'\'\'
    network, size = main()
    built = network.build(1, 2)
'''
#: ``handwrite.py``
BY_HAND = '''\
import nni
def max_pool(k):
    pass

h_conv1 = 1
nni.choice({'foo': foo, 'bar': bar})(1)
conv_size = nni.choice({2: 2, 3: 3, 5: 5, 7: 7}, name='conv_size')
abc = nni.choice({'2': '2', 3: 3, '(5 * 6)': 5 * 6, 7: 7}, name='abc')
h_pool1 = nni.function_choice({'max_pool': lambda : max_pool(h_conv1),
    'h_conv1': lambda : h_conv1})
tmp = nni.qlognormal(1.2, 3, 4.5)
nni.report_final_result(2)
'''
#: ``nas.py``
LAYERS = '''\
def main():
    images = 5

    """@nni.mutable_layers(
    {
        layer_choice: [add_one(), add_two()],
        optional_inputs: [images],
        optional_input_size: 1,
        layer_output: layer_1_out
    }
    )"""
    """@nni.report_final_result(layer_1_out)"""
'''


def choice(*options: object) -> dict[str, object]:
    return {"_type": "choice", "_value": list(options)}


def test_the_search_space_is_that_of_nnis_tool() -> None:
    found = rewrite_files({"dir/simple.py": SIMPLE.encode(), "mnist.py": MNIST.encode(),
                           "handwrite.py": BY_HAND.encode(), "non_annotation/foo.py": b"print('hello')\n"})
    expected = {
        "dir.simple/conv_size/choice": choice(2, 3, 5, 7),
        "dir.simple/abc/choice": choice("2", 3, "(5 * 6)", "{(1): 2, '3': 4}", "[1, 2, 3]"),
        "dir.simple/max_pool/function_choice": choice("max_pool(h_conv1)", "avg_pool(h_conv2, h_conv3)"),
        "dir.simple/max_poo/function_choice": choice("max_poo(h_conv1)", "(2 * 3 + 4)", "(lambda x: 1 + x)"),
        "mnist/self.conv_size/choice": choice(2, 3, 5, 7),
        "mnist/self.hidden_size/choice": choice(124, 512, 1024),
        "mnist/self.learning_rate/loguniform": {"_type": "loguniform", "_value": [0.0001, 0.1]},
        "mnist/tf.nn.relu/function_choice": choice("tf.nn.relu(x + b)", "tf.nn.tanh(x + b)"),
        "mnist/max_pool/function_choice": choice("max_pool(h, self.pool_size)", "avg_pool(h, self.pool_size)"),
        "mnist/batch_size/choice": choice(16, 32),
        "mnist/dropout_rate/choice": choice(0.5, 0.9),
        "handwrite/__line6/choice": choice("foo", "bar"),
        "handwrite/conv_size/choice": choice(2, 3, 5, 7),
        "handwrite/abc/choice": choice("2", 3, "(5 * 6)", 7),
        "handwrite/__line9/function_choice": choice("max_pool", "h_conv1"),
        "handwrite/__line11/qlognormal": {"_type": "qlognormal", "_value": [1.2, 3, 4.5]},
    }
    assert json.loads(json.dumps(found.search_space)) == expected
    assert set(found.sources) == {"dir/simple.py", "mnist.py", "handwrite.py"}
    assert found.places["mnist/max_pool/function_choice"] == ("mnist.py", 29)


def test_the_rewritten_programs_do_what_nnis_do() -> None:
    names, nni = run(SIMPLE, {
        "dir.simple/conv_size/choice": 7, "dir.simple/abc/choice": "{(1): 2, '3': 4}",
        "dir.simple/max_pool/function_choice": "avg_pool(h_conv2, h_conv3)",
        "dir.simple/max_poo/function_choice": "(lambda x: 1 + x)"}, "dir.simple")
    assert (names["conv_size"], names["abc"], names["h_pool1"]) == (7, {1: 2, "3": 4}, ("avg", (2, 3)))
    assert names["h_pool2"](4) == 5
    assert nni.reports == [("intermediate", 1), ("final", 2)]
    names, nni = run(MNIST, {
        "mnist/self.conv_size/choice": 3, "mnist/self.hidden_size/choice": 124,
        "mnist/self.learning_rate/loguniform": 0.05, "mnist/tf.nn.relu/function_choice": "tf.nn.tanh(x + b)",
        "mnist/max_pool/function_choice": "avg_pool(h, self.pool_size)", "mnist/batch_size/choice": 32,
        "mnist/dropout_rate/choice": 0.9}, "mnist")
    assert vars(names["network"]) == {"conv_size": 3, "hidden_size": 124, "learning_rate": 0.05, "pool_size": 2}
    assert (names["size"], names["built"]) == (32, ("avg", ("tanh", 3), 2))
    assert nni.reports == [("intermediate", 0.9), ("intermediate", 1.9), ("final", 1.9)]


def test_layers_that_change_are_refused_with_the_sentence_that_says_why() -> None:
    with pytest.raises(AnnotationsInvalid, match=r"^nas\.py, line 4: @nni\.mutable_layers belongs to neural "
                                                 r"architecture search, which is not supported\."):
        rewrite_files({"nas.py": LAYERS.encode()})
