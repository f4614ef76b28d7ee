#include "core/run/apply.hpp"

namespace kinora::core {

Options apply_options(Runtime& runtime, const ApplyRequest& request) {
  const auto* spec = or_throw(runtime.registry().find(request.id));
  return or_throw(Options::make(*spec, request.options, std::filesystem::current_path()));
}

}  // namespace kinora::core
