// Python in this process: its start, its lock, and calls of attnlab's own side of it (the module
// attnlab._host).
//
// The interpreter is started at the first call and never ended: modules' threads and destructors
// would wait for each other. Its signal handlers are not installed, so that Ctrl-C stays the
// program's. Nothing here may hold the lock while LibTorch goes back through a graph.
#pragma once

#include <torch/csrc/autograd/python_variable.h>

#include <memory>
#include <string>
#include <utility>

#include "framework/tensor/tensor.h"

namespace attnlab::python {

/// Python's lock, while it lives.
class Lock {
 public:
  Lock() : state_(PyGILState_Ensure()) {}
  ~Lock() { PyGILState_Release(state_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  PyGILState_STATE state_;
};

/// An object that may be let go by any thread, with the lock or without.
using Shared = std::shared_ptr<PyObject>;
Shared shared(py::object object);
inline py::handle handle(const Shared& object) { return object.get(); }

/// Starts the interpreter where that was not done yet.
/// @throws PluginError: it cannot be started, or has no torch of this LibTorch.
void start();

// ---- with the lock

/// A function of attnlab._host, which lives as long as the process.
py::handle host(const char* function);

/// The answer to a call of attnlab._host, (value, None) or (None, what is wrong).
/// @param wrong  gets what is wrong
/// @returns null where there is something
py::object answer(const py::object& pair, std::string& wrong);

/// Calls a function that answers.
/// @throws Failure saying what is wrong, with file and line.
template <class Failure, class... Arguments>
py::object ask(const py::handle& function, Arguments&&... arguments) {
  PyErr_Clear();  // what an earlier pass back through a graph left
  std::string wrong;
  py::object value;
  try {
    value = answer(function(std::forward<Arguments>(arguments)...), wrong);
  } catch (const py::error_already_set& error) {
    wrong = error.what();
  }
  if (!wrong.empty()) throw Failure(wrong);
  return value;
}

/// None for an undefined tensor.
py::object to_python(const Tensor& tensor);
/// Undefined for None. @param object  a tensor, or None
Tensor to_tensor(const py::handle& object);

}  // namespace attnlab::python
