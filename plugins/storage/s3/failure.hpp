// The meaning of an unsuccessful answer: whether another try may help, and the message for the user.
#pragma once
#include <string>

#include "plugins/storage/s3/answers.hpp"
#include "plugins/storage/s3/credentials.hpp"
#include "plugins/storage/s3/http.hpp"
#include "kinora/error.hpp"

namespace kinora::s3 {

enum class Verdict { again, new_credentials, final };
// Whether no server answered at the address.
bool is_nobody(const HttpAnswer& answer);

Verdict judge(const HttpAnswer& answer, const ServerError& said);

// `subject`: "s3://bucket/key: cannot be read". Keys and tokens that a server repeats in its answer are
// removed. `tries`: number of attempts.
Error failure(const std::string& subject, const HttpAnswer& answer, const ServerError& said,
              const Credentials* credentials, const std::string& region, int64_t tries);

}  // namespace kinora::s3
