// The rules for dtypes and shapes in plugin.toml.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace kinora::core {

// "float" and "int" are any number of their sort, "none" is a tensor that is left out.
const std::vector<std::string>& tensor_dtypes();

// "[B, C, 3]", "[]" for one number, "[B, ...]" for any further axes, "[B] or [B, F * h * w]" for alternatives,
// "" for a shape that is not stated. An axis is a name, a number or a formula of both with + - * / ^ and
// parentheses; "B or 1" is one of two sizes.
bool is_tensor_shape(std::string_view);
inline constexpr const char* tensor_shape_rule =
    "write \"[B, C, 3]\", \"[B, ...]\" or \"[]\", and alternatives as \"[B] or [B, T]\"; an axis is a name, "
    "a number or a formula of both with + - * / ^ ( )";

}  // namespace kinora::core
