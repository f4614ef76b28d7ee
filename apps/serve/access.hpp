// Who may ask the server: whoever has its token, as `Authorization: Bearer TOKEN`. /health is for everybody.
#pragma once
#include <string>

#include "apps/web/server.hpp"

namespace kinora::serve {

// Refuses requests without the token, and those of pages of other sites. Every answer gets an x-request-id.
void guard_with(web::Server& server, const std::string& token);

}  // namespace kinora::serve
