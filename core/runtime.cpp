#include "core/runtime.hpp"

#include "core/log.hpp"

namespace kinora::core {

Runtime::Runtime(Registry registry) : registry_(std::move(registry)) { serve_io(&io_); }

Runtime::~Runtime() { serve_io(nullptr); }

Result<std::unique_ptr<Runtime>> Runtime::make(const RuntimeOptions& options) {
  if (const auto status = start_log(options.log_level); !status) return status.failure();
  return std::unique_ptr<Runtime>(new Runtime(Registry::scan(search_folders(options.plugin_dirs))));
}

}  // namespace kinora::core
