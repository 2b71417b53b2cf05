// The engine's own tool writes this file.
#undef GENERATED_BODY
#define GENERATED_BODY() \
public:                  \
    using Super = AActor;
