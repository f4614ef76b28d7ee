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

int run_and_report(const std::function<int()>& program) {
  try {
    return program();
  } catch (const boost::program_options::error& e) {
    for (const char* flag : {"--plugins", "--plugins-lock", "--log"})
      if (std::string(e.what()).find("'" + std::string(flag) + "'") != std::string::npos)
        return complain(
            kUsage, std::string(flag) + " comes before the command: kinora " + flag + " VALUE COMMAND ...");
    return complain(kUsage, std::string(e.what()) + "; see --help");
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
