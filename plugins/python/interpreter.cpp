#include "plugins/python/interpreter.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "framework/host/process_state.h"
#include "framework/nn/kernels/dropout.h"
#include "plugins/python/handed.h"

namespace attnlab::python {
namespace {

namespace fs = std::filesystem;

/// The library that an address is of.
std::string library_of(const void* address) {
  Dl_info info{};
  return ::dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

/// Modules of Python that are libraries find its symbols among those of the whole process alone,
/// and this plugin was loaded with its own.
void show_symbols() {
  const std::string library = library_of(reinterpret_cast<const void*>(&Py_IsInitialized));
  ::dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

/// Where the package attnlab lies beside this library: share/attnlab/python.
std::string package_folder() {
  const fs::path library = library_of(reinterpret_cast<const void*>(&package_folder));
  return (library.parent_path() / "../../share/attnlab/python").lexically_normal().string();
}

std::string program() {
  const char* const given = std::getenv("ATTNLAB_PYTHON");
  return given != nullptr && *given != '\0' ? given : ATTNLAB_PYTHON_PROGRAM;
}

/// @returns why not; empty where it runs
std::string initialise() {
  PyPreConfig before;  // leaves the locale and the environment alone
  PyPreConfig_InitIsolatedConfig(&before);
  before.utf8_mode = 1;
  PyStatus status = Py_PreInitialize(&before);
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  config.parse_argv = 0;
  config.install_signal_handlers = 0;
  config.configure_c_stdio = 0;
  config.write_bytecode = 0;
  // By this path it finds packages, those of a virtual environment, too.
  if (!PyStatus_Exception(status)) {
    status = PyConfig_SetBytesString(&config, &config.program_name, program().c_str());
  }
  if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  if (!PyStatus_Exception(status)) return "";
  return fmt::format(
      "Python ({}) cannot be started: {}; name another one in ATTNLAB_PYTHON, of version {}.{}",
      program(), status.err_msg == nullptr ? "it ended" : status.err_msg, PY_MAJOR_VERSION,
      PY_MINOR_VERSION);
}

/// Imports attnlab's own side, and torch with it. @returns why not; empty where it is there
/// @param prints  what files print is not a result of the program's: to standard error
std::string import_host(bool prints) {
  try {
    const py::module_ system = py::module_::import("sys");
    if (prints) system.attr("stdout") = system.attr("stderr");
    system.attr("path").attr("insert")(0, package_folder());
    py::module_ own = py::reinterpret_steal<py::module_>(PyModule_New("_attnlab"));
    own.def("dropout", [](const py::object& x, double p) {
      const Tensor tensor = to_tensor(x);
      Tensor dropped;
      {
        const py::gil_scoped_release unlocked;
        dropped = attnlab::dropout(tensor, p);
      }
      return to_python(dropped);
    });
    add_handed(own);
    system.attr("modules")["_attnlab"] = own;
    py::module_::import("attnlab._host").inc_ref();  // for ever
    return "";
  } catch (const py::error_already_set& error) {
    return fmt::format(
        "Python ({}) cannot import what attnlab needs: {}; install python3-torch, "
        "or name another interpreter in ATTNLAB_PYTHON",
        program(), error.what());
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::string start_once() {
  // What Python and packages set for a whole process is put back.
  const ProcessState before;
  show_symbols();
  const bool ours = Py_IsInitialized() == 0;
  std::string wrong = ours ? initialise() : "";
  if (wrong.empty()) {
    if (ours) {
      wrong = import_host(/*prints=*/true);
      PyEval_SaveThread();  // gives the lock away
    } else {
      const Lock lock;
      wrong = import_host(/*prints=*/false);
    }
  }
  before.restore();
  return wrong;
}

}  // namespace

Shared shared(py::object object) {
  return {object.release().ptr(), [](PyObject* held) {
            if (held == nullptr) return;
            const Lock lock;
            Py_DECREF(held);
          }};
}

void start() {
  static const std::string wrong = start_once();
  if (!wrong.empty()) throw PluginError(wrong);
}

py::handle host(const char* function) {
  static const py::handle module = py::module_::import("attnlab._host").release();
  return module.attr(function).cast<py::object>().release();
}

py::object answer(const py::object& pair, std::string& wrong) {
  const py::tuple parts = pair;
  const py::object text = parts[1];
  if (text.is_none()) return parts[0];
  wrong = text.cast<std::string>();
  return {};
}

py::object to_python(const Tensor& tensor) {
  if (!tensor.defined()) return py::none();
  return py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor));
}

Tensor to_tensor(const py::handle& object) {
  if (object.is_none()) return {};
  return THPVariable_Unpack(object.ptr());
}

}  // namespace attnlab::python
