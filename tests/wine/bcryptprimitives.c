/* The one function of bcryptprimitives.dll that std calls, for wine 8, which lacks it. */
#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T len) {
    for (; len > 0; data += 1, len -= 1)
        if (!RtlGenRandom(data, 1))
            return FALSE;
    return TRUE;
}
