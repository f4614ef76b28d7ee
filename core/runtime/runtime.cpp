#include "core/runtime/runtime.hpp"

#include "core/base/log.hpp"

namespace kinora::core {

Runtime::Runtime(Registry registry) : registry_(std::move(registry)) { serve_io(&io_); }

Runtime::~Runtime() { serve_io(nullptr); }

Result<std::unique_ptr<Runtime>> Runtime::make(const RuntimeOptions& options) {
  const auto status = start_log(options.log_level.empty() ? "info" : options.log_level);
  if (!status) return status.failure();
  std::unique_ptr<Runtime> made(new Runtime(Registry::scan(search_folders(options.plugin_dirs))));
  made->has_log_level_ = !options.log_level.empty();
  return made;
}

}  // namespace kinora::core
