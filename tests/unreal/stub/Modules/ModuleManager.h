#pragma once
class FDefaultModuleImpl {};
#define IMPLEMENT_MODULE(implementation, name) extern implementation name##Module; implementation name##Module;
