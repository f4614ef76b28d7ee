// What an answer that is no success means: whether another try may help, and what to tell the user.
#pragma once
#include <string>

#include "answers.hpp"
#include "credentials.hpp"
#include "http.hpp"
#include "kinora/error.hpp"

namespace kinora::s3 {

enum class Verdict { again, new_credentials, final };
// Whether no server was found where one should be.
bool is_nobody(const HttpAnswer& answer);

Verdict judge(const HttpAnswer& answer, const ServerError& said);

// `subject`: "s3://bucket/key: cannot be read". Keys and tokens that a server repeats in its answer are left
// out. `tries`: how many there were.
Error failure(const std::string& subject, const HttpAnswer& answer, const ServerError& said,
              const Credentials* credentials, const std::string& region, int64_t tries);

}  // namespace kinora::s3
