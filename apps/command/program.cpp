#include "apps/command/program.hpp"

#include <cstdio>
#include <cstdlib>
#include <iostream>

#include <boost/program_options.hpp>

#include "core/base/paths.hpp"
#include "host/workers/service.hpp"

namespace kinora {

std::unique_ptr<core::Runtime> start_runtime(const core::RuntimeOptions& flags) {
  auto runtime = core::Runtime::start(flags);
  if (!runtime) {
    complain(kUsage, runtime.failure().message);
    return nullptr;
  }
  (*runtime)->torch_loader(core::open_torch_library);
  core::offer_workers({.program = core::executable_folder() / "kinora",
                       .plugin_dirs = flags.plugin_dirs,
                       .plugins_lock = flags.plugins_lock});
  return std::move(*runtime);
}

namespace {

// "--port: '80a' is not a number", from what Boost says of a value that an option cannot have.
std::string value_problem(const boost::program_options::validation_error& e) {
  const std::string said = e.what();
  const size_t begin = said.find("('"), end = said.find("')", begin);
  if (begin == said.npos || end == said.npos) return said;
  const std::string value = said.substr(begin + 2, end - begin - 2);
  char* rest = nullptr;
  std::strtod(value.c_str(), &rest);
  const bool is_whole = value.find_first_not_of("+-0123456789") == value.npos;
  const char* what = value.empty() || *rest ? "is not a number"
                     : is_whole             ? "is too large"
                                            : "is not a whole number";
  return e.get_option_name() + ": '" + value + "' " + what;
}

}  // namespace

int run_and_report(const std::function<int()>& program, const std::string& help) {
  try {
    return program();
  } catch (const boost::program_options::invalid_option_value& e) {
    return complain(kUsage, value_problem(e) + "; see " + help);
  } catch (const boost::program_options::error& e) {
    for (const char* flag : {"--plugins", "--plugins-lock", "--log"})
      if (std::string(e.what()).find("'" + std::string(flag) + "'") != std::string::npos)
        return complain(
            kUsage, std::string(flag) + " comes before the command: kinora " + flag + " VALUE COMMAND ...");
    return complain(kUsage, std::string(e.what()) + "; see " + help);
  } catch (const Error& e) {
    return complain(e.code() == KINORA_ERROR_INVALID     ? kUsage
                    : e.code() == KINORA_ERROR_CANCELLED ? kInterrupted
                                                         : kFailed,
                    e.what());
  } catch (const std::exception& e) {
    return complain(kFailed, e.what());
  }
}

int end_with(int code) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return code;
#else
  std::cout.flush();
  std::fflush(nullptr);
  std::_Exit(code);
#endif
}

}  // namespace kinora
