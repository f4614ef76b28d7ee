#include "core/torch/chain/rounded_layers.hpp"

#include "kinora/abi/rounding.h"
#include "kinora/error.hpp"

namespace kinora::core {

std::optional<std::vector<std::string>> rounded_layers(const Chain& chain) {
  const kinora_context* head = chain.head();
  const auto* api = static_cast<const kinora_rounding*>(
      head->get_interface(head->self, KINORA_INTERFACE_ROUNDING, KINORA_ABI_MINOR));
  if (!api) return std::nullopt;
  std::vector<std::string> out;
  for (const char* name = nullptr;; out.emplace_back(name)) {
    kinora_rounding_sums sums[KINORA_OPERANDS] = {};
    const int32_t status = api->layer(api->self, static_cast<int64_t>(out.size()), &name, sums);
    if (status == KINORA_ERROR_NOT_FOUND) return out;
    check(status);
  }
}

}  // namespace kinora::core
